#!/usr/bin/env bash
# Node rank 1 of tiny-spark, on spark2, cluster default. Rendered by sparkfleet; works when run by hand.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=/dev/null
. "$here/nccl.env"
export PATH=/home/nvidia/vllm-env/bin:"$PATH"
exec /home/nvidia/vllm-env/bin/vllm serve /home/nvidia/vllm/tiny-spark \
    --served-model-name=tiny-spark \
    --headless \
    --tensor-parallel-size=2 \
    --distributed-executor-backend=mp \
    --nnodes=2 \
    --node-rank=1 \
    --master-addr=192.168.100.1 \
    --master-port=29501 \
    --max-model-len 256 \
    --enforce-eager \
    --kv-cache-memory-bytes 33554432 \
    --max-num-seqs 4

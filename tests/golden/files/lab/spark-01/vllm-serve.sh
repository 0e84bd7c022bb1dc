#!/usr/bin/env bash
# Serves tiny-spark from spark-01, cluster default. Rendered by sparkfleet; works when run by hand.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=/dev/null
. "$here/nccl.env"
export PATH=/home/nvidia/vllm-env/bin:"$PATH"
# vLLM copies the head's NCCL_*, VLLM_* and more to the Ray workers; the names in
# $VLLM_CONFIG_ROOT/ray_non_carry_over_env_vars.json stay as each worker has them.
export VLLM_CONFIG_ROOT="$here/vllm-config"
export RAY_ADDRESS=192.168.100.1:6379
exec /home/nvidia/vllm-env/bin/vllm serve /home/nvidia/vllm/tiny-spark \
    --served-model-name=tiny-spark \
    --host=0.0.0.0 \
    --port=8000 \
    --tensor-parallel-size=2 \
    --distributed-executor-backend=ray \
    --max-model-len 256 \
    --enforce-eager \
    --kv-cache-memory-bytes 33554432 \
    --max-num-seqs 4

#!/usr/bin/env bash
# A Ray worker of cluster default, on spark4. Rendered by sparkfleet; works when run by hand.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=/dev/null
. "$here/nccl.env"
export PATH=/home/nvidia/vllm-env/bin:"$PATH"
exec /home/nvidia/vllm-env/bin/python /home/nvidia/vllm/.sparkfleet/default/ray-worker-start 192.168.100.1:6379 /home/nvidia/vllm-env/bin/ray start \
    --address=192.168.100.1:6379 \
    --block \
    --node-ip-address=192.168.100.4 \
    --node-manager-port=6380 \
    --object-manager-port=6381 \
    --min-worker-port=20000 \
    --max-worker-port=20099 \
    --num-cpus=1 \
    --num-gpus=1 \
    --object-store-memory=104857600 \
    --disable-usage-stats

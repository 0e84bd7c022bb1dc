#!/usr/bin/env bash
# Ray's head of cluster default, on spark-1. Rendered by sparkfleet; works when run by hand.
set -euo pipefail
mkdir -p /home/nvidia/.cache/sparkfleet/abcdef123456-1000-1000
exec docker run \
    --rm \
    --pull=never \
    --no-healthcheck \
    --name=sparkfleet-default-ray \
    --label=sparkfleet.cluster=default \
    --label=sparkfleet.role=ray \
    --label=sparkfleet.deployment=e6405147ba3cc779 \
    --network=host \
    --init \
    --ipc=host \
    --gpus=all \
    --device=/dev/infiniband \
    --ulimit=memlock=-1:-1 \
    --ulimit=nofile=1048576:1048576 \
    --cap-add=IPC_LOCK \
    --memory=118111600640 \
    --memory-swap=118111600640 \
    --user=1000:1000 \
    --mount=type=bind,source=/home/nvidia/vllm/.sparkfleet/default,target=/sparkfleet,readonly \
    --mount=type=bind,source=/home/nvidia/.cache/sparkfleet/abcdef123456-1000-1000,target=/cache \
    --mount=type=bind,source=/home/nvidia/vllm,target=/models,readonly \
    --mount=type=volume,target=/tmp \
    --entrypoint=bash nvcr.io/nvidia/vllm:26.04-py3 /sparkfleet/container.sh ray start \
    --head \
    --port=6379 \
    --include-dashboard=false \
    --block \
    --node-ip-address=192.168.100.1 \
    --node-manager-port=6380 \
    --object-manager-port=6381 \
    --min-worker-port=20000 \
    --max-worker-port=20099 \
    --num-cpus=2 \
    --num-gpus=1 \
    --object-store-memory=1073741824 \
    --disable-usage-stats

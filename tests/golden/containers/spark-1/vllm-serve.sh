#!/usr/bin/env bash
# Serves org/model from spark-1, cluster default. Rendered by sparkfleet; works when run by hand.
set -euo pipefail
mkdir -p /home/nvidia/.cache/sparkfleet/abcdef123456-1000-1000
exec docker run \
    --rm \
    --pull=never \
    --no-healthcheck \
    --name=sparkfleet-default-serve \
    --label=sparkfleet.cluster=default \
    --label=sparkfleet.role=serve \
    --label=sparkfleet.deployment=e6405147ba3cc779 \
    --network=host \
    --pid=container:sparkfleet-default-ray \
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
    --volumes-from=sparkfleet-default-ray \
    --env=RAY_ADDRESS=192.168.100.1:6379 \
    --env=VLLM_CONFIG_ROOT=/sparkfleet/vllm-config \
    --entrypoint=bash nvcr.io/nvidia/vllm:26.04-py3 /sparkfleet/container.sh vllm serve /models/org/model \
    --served-model-name=org/model \
    --host=0.0.0.0 \
    --port=8000 \
    --tensor-parallel-size=2 \
    --distributed-executor-backend=ray \
    --speculative-config '{"method":"mtp","num_speculative_tokens":1}'

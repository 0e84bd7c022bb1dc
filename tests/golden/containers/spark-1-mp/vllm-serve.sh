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
    --label=sparkfleet.deployment=6de96996f2c52d45 \
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
    --entrypoint=bash nvcr.io/nvidia/vllm:26.04-py3 /sparkfleet/container.sh vllm serve /models/org/model \
    --served-model-name=org/model \
    --host=0.0.0.0 \
    --port=8000 \
    --tensor-parallel-size=2 \
    --distributed-executor-backend=mp \
    --nnodes=2 \
    --node-rank=0 \
    --master-addr=192.168.100.1 \
    --master-port=29501 \
    --speculative-config '{"method":"mtp","num_speculative_tokens":1}'

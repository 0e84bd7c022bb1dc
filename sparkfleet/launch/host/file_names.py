"""File names in a deployment's folder on a host."""

from __future__ import annotations

from sparkfleet.onhost.shared import labels

ENVIRONMENT = labels.ENVIRONMENT_FILE
RAY_TOKEN = labels.RAY_TOKEN_FILE
START_SCRIPT = "container.sh"
RAY_HEAD_SCRIPT = "ray-head.sh"
RAY_WORKER_SCRIPT = "ray-worker.sh"
RAY_WORKER_PROGRAM = "ray-worker-start"  # which that script runs, without a container
SERVE_SCRIPT = "vllm-serve.sh"
NO_CARRY = "vllm-config/ray_non_carry_over_env_vars.json"
MANAGED_FILES = (
    ENVIRONMENT,
    START_SCRIPT,
    RAY_HEAD_SCRIPT,
    RAY_WORKER_SCRIPT,
    RAY_WORKER_PROGRAM,
    SERVE_SCRIPT,
    NO_CARRY,
)

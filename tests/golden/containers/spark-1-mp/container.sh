#!/usr/bin/env bash
# The first program in every container of cluster default on spark-1. Rendered by sparkfleet.
set -euo pipefail
# shellcheck source=/dev/null
. /sparkfleet/nccl.env
exec "$@"

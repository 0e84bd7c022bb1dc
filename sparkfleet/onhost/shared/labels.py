"""Names that the programs on the hosts and the control side agree on."""

from __future__ import annotations

# Precedes the first frame of the multiplexer: the login shell may have printed before it.
FRAMES_MARK = b"\0sparkfleet frames\n"
BEAT = 10.0  # seconds between heartbeats of a run's connection to a host
SILENCE = 60.0  # seconds without one, after which the host gives the run up, and its lock

# In the folder of a cluster.
DEPLOYMENT_RECORD = "deployment.json"
GUARD_RECORD = "guard.json"
GUARD_SERVING = "guard.serving"  # exists once the ranks serve
EVENT_LOG = "events.jsonl"
ENVIRONMENT_FILE = "nccl.env"
RAY_TOKEN_FILE = "ray-token"  # noqa: S105 - a file name; a new token at each start of Ray

# How processes and containers of a cluster are found.
CLUSTER_VARIABLE = "SPARKFLEET_CLUSTER"
CLUSTER_LABEL = "sparkfleet.cluster"
ROLE_LABEL = "sparkfleet.role"
DEPLOYMENT_LABEL = "sparkfleet.deployment"

# In a weights folder.
STATE_FOLDER = ".sparkfleet"
PARTIAL = ".incomplete"  # the end of the name of a file that is not complete

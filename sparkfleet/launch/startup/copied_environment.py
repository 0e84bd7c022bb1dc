"""Whether vLLM leaves each host its own variables under Ray; pure.

It copies variables of the head to Ray's workers, except those named in a file that we write
(failure 88), and logs the names that it copies.
"""

from __future__ import annotations

from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.host.file_names import NO_CARRY
from sparkfleet.vllm import milestones

HINT = f"it did not read {NO_CARRY}: take VLLM_CONFIG_ROOT out of vllm_env"


def check_copied_environment(deployment: Deployment, line: str) -> str:
    """Return what is wrong with a line of the head's log, "" if nothing is."""
    wrong = deployment.per_host & {*milestones.find_copied_variables(line)}
    if not wrong:
        return ""
    names = ", ".join(sorted(wrong))
    return f"vLLM copies {names} from the head to the other hosts, which have their own"

"""Check that vLLM keeps each host's own variables under Ray; pure.

vLLM copies variables of the head to Ray's workers, except those listed in a rendered file, and
logs the copied names.
"""

from __future__ import annotations

from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.host.file_names import NO_CARRY
from sparkfleet.vllm import milestones

HINT = f"vLLM did not read {NO_CARRY}: remove VLLM_CONFIG_ROOT from vllm_env"


def check_copied_environment(deployment: Deployment, line: str) -> str:
    """Return the problem in a line of the head's log, "" if there is none."""
    wrong = deployment.per_host & {*milestones.find_copied_variables(line)}
    if not wrong:
        return ""
    names = ", ".join(sorted(wrong))
    return f"vLLM overrides {names} on the workers with the head's values"

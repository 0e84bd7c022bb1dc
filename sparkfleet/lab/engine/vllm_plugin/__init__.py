"""The lab's platform for vLLM: the CPU, as a device that Ray may place workers on.

This package is copied into the engine as `sparkfleet_lab_platform`; vLLM finds it through the
entry point group ``vllm.platform_plugins``. Stock vLLM refuses Ray on the CPU.
"""

from __future__ import annotations


def register() -> str:
    """Return the platform class that vLLM shall load."""
    return "sparkfleet_lab_platform.platform.LabPlatform"

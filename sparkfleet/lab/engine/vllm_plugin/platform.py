"""The CPU platform with a device that Ray knows."""

from __future__ import annotations

from vllm.platforms.cpu import CpuPlatform


class LabPlatform(CpuPlatform):  # type: ignore[misc]  # vLLM is typed in its own environment only
    """A CPU that `ray start --num-gpus=1` offers as one GPU a host."""

    ray_device_key = "GPU"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Return the class through which the ranks of a group talk."""
        return "sparkfleet_lab_platform.communicator.HostToHostCommunicator"

"""The CPU communicator for ranks that live on different hosts."""

from __future__ import annotations

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class HostToHostCommunicator(CpuCommunicator):  # type: ignore[misc]  # as in `platform`
    """Talks through gloo only: /dev/shm, vLLM's way on one host, does not reach the next."""

    def _all_group_ranks_share_shm_group_name(self) -> bool:
        return False

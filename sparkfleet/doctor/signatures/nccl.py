"""Failures of NCCL before it uses the network: the GPU of each rank, and the first meeting."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="nccl-duplicate-gpu",
        pattern=r"Duplicate GPU detected ?: rank (?P<one>\d{1,5}) and rank (?P<other>\d{1,5})",
        cause=(
            "Ranks {one} and {other} use one GPU: both run on the same host, or "
            "CUDA_VISIBLE_DEVICES gives them the same."
        ),
        fix=(
            "A Spark has one GPU, so that each rank needs its own host: compare the hosts with "
            "`{task:inventory.list}`, and leave CUDA_VISIBLE_DEVICES unset."
        ),
        source="verl-project/verl#161; NVIDIA/Megatron-LM#661",
        leads_to=("nccl-group-failed",),
        sample="Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 10",
        near_miss="rank 0 and rank 1 are on different CUDA devices",
    ),
    Signature(
        id="nccl-id-not-received",
        pattern=(
            r"\[(?P<waiting>\d{1,5})\] is setting up NCCL communicator and retr\w{4,6} "
            r"ncclUniqueId from \[(?P<silent>\d{1,5})\].{0,160} got error: (?P<why>[\w :]{1,80})"
        ),
        cause=(
            "Rank {waiting} waited in vain for rank {silent} ({why}): rank {silent} failed before, "
            "or cannot be reached."
        ),
        fix="Read the log of rank {silent}; `{task:links.verify}` tests the ways to its host.",
        source="hiyouga/LlamaFactory#3698; mlfoundations/open_clip#669",
        role=FailureRole.SYMPTOM,
        sample=(
            "torch.distributed.DistBackendError: [4] is setting up NCCL communicator and "
            "retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but "
            "store->get('0') got error: Socket Timeout"
        ),
        near_miss="[1] is setting up NCCL communicator",
    ),
    Signature(
        id="nccl-remote-error",
        pattern=r"NCCL error: remote process exited or there was a network error|ncclRemoteError: ",
        cause="Another rank went away while NCCL talked to it: it failed, or the network did.",
        fix="Read the logs of the other hosts; `{task:links.verify}` tests the ways between them.",
        source="deepseek-ai/DeepEP#106; vllm-project/vllm#3722",
        role=FailureRole.SYMPTOM,
        sample="NCCL error: remote process exited or there was a network error, NCCL version 2.20",
        near_miss="NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    ),
    Signature(
        id="nccl-system-error",
        pattern=r"ncclSystemError: System call",
        cause="A call of NCCL to the system or to the RDMA libraries failed.",
        fix="Read NCCL's lines before it with `NCCL_DEBUG: INFO`; run `{task:links.verify}`.",
        source="NVIDIA/nccl#622; NVIDIA/nccl#975",
        role=FailureRole.SYMPTOM,
        sample="ncclSystemError: System call (e.g. socket, malloc) or external library call failed",
        near_miss="ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
    ),
    Signature(
        id="libibverbs-missing",
        pattern=r"Failed to open libibverbs\.so",
        cause="The image has no libibverbs, so that NCCL cannot use RDMA and takes TCP.",
        fix="Use an image with libibverbs1 and ibverbs-providers, such as NVIDIA's NGC image.",
        source="huggingface/accelerate#2183; horovod/horovod#685",
        role=FailureRole.WARNING,
        sample="NCCL INFO Failed to open libibverbs.so[.1]",
        near_miss="NCCL INFO NET/IB : Using [0]rocep1s0f1:1/RoCE",
    ),
)

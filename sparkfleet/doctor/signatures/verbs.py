"""Failures that NCCL and the RDMA verbs report while a group forms."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="F39",
        pattern=r"ibv_reg_mr_iova2.*(?:ENOMEM|Cannot allocate memory)",
        cause="The kernel keeps no contiguous memory for RDMA (7.0.0-31 and -1019 with KHO).",
        fix="Boot with `kho=off` on the kernel command line.",
        source="facts/dgx-spark.md failure 39; case C15",
        recorded=False,
    ),
    Signature(
        id="F39-cma",
        pattern=r"^CmaTotal: +0 kB\nCmaFree: +[1-9]",
        cause="CmaTotal is 0 and CmaFree is not: this kernel cannot register RDMA memory.",
        fix="Boot with `kho=off` on the kernel command line, or another kernel.",
        source="facts/dgx-spark.md failure 39; case C15",
    ),
    Signature(
        id="F40",
        pattern=r"ibv_reg_mr\b.*Cannot allocate memory",
        cause="The memlock limit is too low for RDMA.",
        fix="Give the engine memlock -1 (`--ulimit memlock=-1`).",
        source="facts/dgx-spark.md failure 40",
        recorded=False,
    ),
    Signature(
        id="F41",
        pattern=r"ibv_modify_qp.*(?:\b61\b|No data available)",
        cause="The GID index that NCCL was given is empty on this host: it moved.",
        fix="Set nccl_ib_gid_index: auto, so that NCCL picks the index itself.",
        source="facts/dgx-spark.md failure 41; case C06",
        recorded=False,
    ),
    Signature(
        id="C10",
        pattern=r"ibv_modify_qp.*(?:EINVAL|Invalid argument)",
        cause="The GID tables of the hosts differ: a rail has no or a random link-local address.",
        fix="Give every rail a static address in netplan; `invoke links.verify` names the rail.",
        source="case C10",
        recorded=False,
    ),
    Signature(
        id="F42",
        pattern=r"ibv_modify_qp.*(?:\b110\b|timeout|timed out)",
        cause=(
            "The other end of a queue pair did not answer: a ring cabled port 0 to port 0, no "
            "subnet-aware routing, or NCCL variables baked into a foreign image."
        ),
        fix=(
            "Run `invoke links.verify`; in a ring cable port 0 to port 1 and set link_topology: "
            "ring; set the image's NCCL_IB_ADDR_* and NCCL_IB_ROCE_* to null in nccl_env."
        ),
        source="facts/dgx-spark.md failures 42 and 81",
        recorded=False,
    ),
    Signature(
        id="F81",
        pattern=r"NCCL_IB_(?P<name>ADDR_RANGE|ADDR_FAMILY|ROCE_VERSION\w*) set by environment to",
        cause="The image or the recipe sets NCCL_IB_{name}, which fits its author's network.",
        fix="Set NCCL_IB_{name}: null in nccl_env: it is then unset inside the container.",
        source="facts/dgx-spark.md failure 81",
        role=FailureRole.WARNING,
        recorded=False,
    ),
    Signature(
        id="F43",
        pattern=r"TransportTreeConnect",
        cause="NCCL builds a tree, and a switchless ring has no path between opposite hosts.",
        fix="Set link_topology: ring, which renders the ring's settings, or use a switch.",
        source="facts/dgx-spark.md failure 43; case C14",
    ),
    Signature(
        id="F44",
        pattern=r"IBV_WC_RETRY_EXC_ERR",
        cause="Packets to the other host were lost: its address was unknown, or the MTUs differ.",
        fix="Run `invoke links.verify`: it pings every rail and compares every MTU.",
        source="facts/dgx-spark.md failure 44",
        recorded=False,
    ),
    Signature(
        id="F82",
        pattern=r"NCCL error: invalid argument",
        cause="The image sets VLLM_NCCL_SO_PATH, so that the preloaded NCCL is not the one used.",
        fix="Set VLLM_NCCL_SO_PATH in vllm_env to the library that you mean.",
        source="facts/dgx-spark.md failure 82",
        recorded=False,
    ),
    Signature(
        id="F36",
        pattern=r"nccl==2\.30\.4\b|NCCL version 2\.30\.4\b",
        cause="NCCL 2.30.4 can hang with NVLS.",
        fix="Use an image with NCCL 2.30.3 or 2.30.6a0.",
        source="facts/dgx-spark.md failure 36",
        role=FailureRole.WARNING,
        recorded=False,
    ),
    Signature(
        id="L-nccl",
        pattern=r"NCCL error: (?P<what>invalid usage|unhandled (?:system|cuda) error)",
        cause="NCCL could not form the group: {what}.",
        fix="Read the `NCCL WARN` line before it; with none, set NCCL_DEBUG: INFO in nccl_env.",
        source="lab.md; cases C06 and C08",
        role=FailureRole.SYMPTOM,
    ),
    Signature(
        id="F37",
        pattern=r"(?i)\bwatchdog\b.*\b600\b",
        cause="A collective waited 600 s: the other rank compiled a kernel, or is dead.",
        fix="Look at the other rank's log; keep the Triton cache and warm up after a start.",
        source="facts/dgx-spark.md failure 37",
        role=FailureRole.SYMPTOM,
        recorded=False,
    ),
    Signature(
        id="F38",
        pattern=r"(?i)gloo.*\b1800\b",
        cause="A barrier waited 1800 s: one rank tuned its kernels, the other had them.",
        fix="Keep the compile caches of all hosts, or clear them on all, then start again.",
        source="facts/dgx-spark.md failure 38",
        role=FailureRole.SYMPTOM,
        recorded=False,
    ),
    Signature(
        id="F67",
        pattern=r"waiting for clients\. (?P<joined>\d+)/(?P<all>\d+) clients joined",
        cause="Only {joined} of {all} ranks came: a worker is down, or its port is blocked.",
        fix="Look at the worker's log first, then `invoke links.verify` for the port.",
        source="facts/dgx-spark.md failure 67",
        role=FailureRole.SYMPTOM,
    ),
    Signature(
        id="V-rendezvous",
        pattern=r"The client socket has (?:timed out|failed to connect)",
        cause="A rank could not reach the head: it is down, or the port is blocked.",
        fix="Look at the head's log first, then `invoke links.verify` for the port.",
        source="PyTorch's TCP store; facts/dgx-spark.md failure 67",
        role=FailureRole.SYMPTOM,
    ),
)

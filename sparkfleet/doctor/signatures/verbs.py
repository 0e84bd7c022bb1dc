"""Failures of RDMA: memory, GIDs, queue pairs and transfers."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="rdma-memory-kho",
        pattern=r"ibv_reg_mr_iova2.{0,300}(?:ENOMEM|Cannot allocate memory)",
        cause=(
            "The kernel could not lock memory for RDMA: a kernel that reserves none (7.0.0-31 and "
            "-1019 with KHO), or a low memlock limit."
        ),
        fix=(
            "Boot with `kho=off` on the kernel command line where /proc/meminfo has CmaTotal: 0 "
            "kB, else give the engine memlock -1 (`--ulimit memlock=-1`)."
        ),
        source=(
            "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259; NVIDIA/nccl-tests#206; "
            "christopherowen/dgx-spark-networking docs/host-prerequisites.md; "
            "luxingcom/aicad-nccl-optimization#1"
        ),
        near_miss="ibv_reg_mr_iova2 registered 4096 bytes",
    ),
    Signature(
        id="rdma-memory-cma",
        pattern=r"^CmaTotal: +0 kB\nCmaFree: +[1-9]",
        cause="CmaTotal is 0 and CmaFree is not: this kernel cannot register RDMA memory.",
        fix="Boot with `kho=off` on the kernel command line, or another kernel.",
        source=(
            "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259; "
            "christopherowen/dgx-spark-networking docs/host-prerequisites.md; "
            "luxingcom/aicad-nccl-optimization#1"
        ),
        near_miss="CmaTotal: 131072 kB\nCmaFree: 131000 kB",
    ),
    Signature(
        id="rdma-memlock",
        pattern=r"ibv_(?:reg_mr|create_(?:cq|qp))\b.{0,300}Cannot allocate memory",
        cause="The memlock limit is too low for RDMA.",
        fix="Give the engine memlock -1 (`--ulimit memlock=-1`).",
        source="openucx/ucx#6264; openucx/ucx#8229; graham33/nixos-dgx-spark README",
        leads_to=("ucx-failed",),
        near_miss="ibv_reg_mr registered 4096 bytes; max locked memory unlimited",
    ),
    Signature(
        id="gid-index-empty",
        pattern=(
            r"ibv_modify_qp.{0,40}(?:(?:with|errno|error):? {0,2}61\b|No data available)"
            r"|non-zero status: 61 ibv_modify_qp failed"
            r"|Failed to query GID \d{1,5} on \S{1,60}: No data available"
            r"|Device \S{1,60} GID \d{1,5} not available"
        ),
        cause=(
            "An adapter of this host has no GID at the index that is used: the index set for it "
            "has changed or is that of another host, or its interface has no address."
        ),
        fix=(
            "Set nccl_ib_gid_index: auto, so that NCCL selects the index itself; "
            "`{task:links.verify}` shows a rail without an address."
        ),
        source=(
            "bytebunkerlabs/dgx-spark-serve/docs/02; "
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#38; "
            "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark PR#10"
        ),
        near_miss="ibv_modify_qp succeeded after 61 ms of INIT",
    ),
    Signature(
        id="gid-tables-differ",
        pattern=(
            r"ibv_modify_qp.{0,60}(?:EINVAL|Invalid argument|Network is unreachable)"
            r"|non-zero status: (?:22|101) ibv_modify_qp failed"
        ),
        cause="The GID tables of the hosts differ: a rail has no or a random link-local address.",
        fix="Give every rail a static address in netplan; `{task:links.verify}` shows the rail.",
        source=(
            "NVIDIA/nccl#302; guardkit/dgx-spark RESULTS-two-spark-bring-up-2026-08-06 finding 4"
        ),
        near_miss="ibv_create_qp failed with error Invalid argument",
    ),
    Signature(
        id="queue-pair-timeout",
        pattern=(
            r"ibv_modify_qp.{0,60}(?:\b110\b|timeout|timed out)"
            r"|modify QP to RTR\b.{0,80}Connection timed out"
            r"|non-zero status: 110 ibv_modify_qp failed"
        ),
        cause=(
            "The other end of a queue pair did not answer: a ring cabled port 0 to port 0, no "
            "subnet-aware routing, or NCCL variables baked into the image."
        ),
        fix=(
            "Run `{task:links.verify}`; in a ring, cable port 0 to port 1 and set link_topology: "
            "ring; set the image's NCCL_IB_ADDR_* and NCCL_IB_ROCE_* to null in nccl_env."
        ),
        source=(
            "eugr/spark-vllm-docker#252; NVIDIA/nccl-tests#227; NVIDIA/nccl#769; "
            "ntxf31415/deepseek-v4-vision-exp-dgxspark-tp4-switchless-ring docs/pitfalls.md"
        ),
        near_miss="ibv_modify_qp: state INIT to RTR",
    ),
    Signature(
        id="gid-without-interface",
        pattern=(
            r"ibv_modify_qp.{0,60}(?:\berrno 19\b|failed with 19\b|No such device)"
            r"|read failed in ncclIbRoceGetVersionNum: Invalid argument"
        ),
        cause=(
            "The GID that NCCL uses has no network interface here: the container has a network of "
            "its own, the interface is down, or NCCL_IB_GID_INDEX points elsewhere."
        ),
        fix=(
            "Run the container in the host's network, set nccl_ib_gid_index: auto, and run "
            "`{task:links.verify}`."
        ),
        source="NVIDIA/nccl#799; NVIDIA/nccl#925",
        leads_to=("nccl-group-failed",),
        sample="NCCL WARN Call to ibv_modify_qp failed with error No such device",
        near_miss="NCCL WARN Call to ibv_open_device failed: No such device",
    ),
    Signature(
        id="nccl-versions-differ",
        pattern=r"connecting to address\b.{0,60}with family (?!1\b)\d{1,10} is neither AF_INET",
        cause="The ranks exchange addresses in different forms: their NCCL versions differ.",
        fix="Start all hosts from the same image; remove NCCL libraries that are mounted over it.",
        source="NVIDIA/nccl#1267",
        leads_to=("nccl-group-failed",),
        sample=(
            "NCCL WARN ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) "
            "nor AF_INET6(10)"
        ),
        near_miss=(
            "NCCL WARN ncclSocketInit: connecting to address  with family 1 is neither AF_INET(2) "
            "nor AF_INET6(10)"
        ),
    ),
    Signature(
        id="nccl-ib-baked-in",
        pattern=r"NCCL_IB_(?P<name>ADDR_RANGE|ADDR_FAMILY|ROCE_VERSION\w*) set by environment to",
        cause="The image or the recipe sets NCCL_IB_{name} for its author's network.",
        fix=(
            "Set NCCL_IB_{name}: null in nccl_env: it is then unset inside the container. Where "
            "/etc/nccl.conf of the image has it, set a value: this goes before the file."
        ),
        source=(
            "ntxf31415/deepseek-v4-vision-exp-dgxspark-tp4-switchless-ring docs/pitfalls.md; "
            "luxingcom/aicad-nccl-optimization#1; NVIDIA/nccl#1008"
        ),
        role=FailureRole.WARNING,
        recorded=False,
        rare=(
            "NCCL then finds no address or crashes (NVIDIA/nccl#1538), and says nowhere that a "
            "setting is the reason: only logs with NCCL_DEBUG=INFO have this line."
        ),
        near_miss="NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.",
    ),
    Signature(
        id="nccl-tree-on-ring",
        pattern=r"(?<!skipping nccl)TransportTreeConnect",
        cause="NCCL builds a tree, and a switchless ring has no path between opposite hosts.",
        fix="Set link_topology: ring, which renders the settings for a ring, or use a switch.",
        source=(
            "MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks PR#3; "
            "tonyd2wild/GLM-5.3-Int4-Int8Mix-TP4-4x-DGX-Spark#2; "
            "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks PR#244"
        ),
        near_miss="NCCL INFO SWITCHLESS: skipping ncclTransportTreeConnect",
    ),
    Signature(
        id="rdma-retry-exceeded",
        pattern=(
            r"IBV_WC_RETRY_EXC_ERR|Got completion .{0,120}(?:with error |status=)12\b"
            r"|Failed status 12\b|\bCQ state error: 12\b|transport retry count(?:er)? exceeded"
        ),
        cause="Packets to the other host were lost: no ARP entry, or different MTUs.",
        fix="Run `{task:links.verify}`: it pings every rail and compares every MTU.",
        source=(
            "NVIDIA/nccl#1814; NVIDIA/nccl#426; graham33/nixos-dgx-spark README; "
            "tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark-1M-NVFP4-KV-2x-DGX-Spark#38"
        ),
        near_miss="NET/IB : Got completion with status=5 opcode=0 len=0 vendor err 249",
    ),
    Signature(
        id="rdma-transfer-failed",
        pattern=(
            r"Got completion .{0,120}(?:with error |status=)(?:IBV_WC_\w{1,30} ?\()?"
            r"(?P<code>(?!12\b)[1-9]\d?)\b"
            r"|Completion with error at (?:client|server)\n Failed status (?P<status>(?!12\b)\d\d?)"
        ),
        cause=(
            "An RDMA transfer ended with an error. Of its numbers 4 is memory that the adapter may "
            "not use, 10 access that the peer refused, 13 a peer that was not ready to receive, "
            "and 5 only follows from another failure."
        ),
        fix=(
            "Find the first such line of all hosts, then run `{task:links.verify}`; if it comes "
            "back, restart both hosts."
        ),
        source="NVIDIA/nccl#214; NVIDIA/nccl-tests#252",
        role=FailureRole.SYMPTOM,
        leads_to=("nccl-group-failed",),
        sample="NET/IB : Got completion from peer 10.0.0.1<1> with error 4, opcode 1, len 21938",
        near_miss="NET/IB : Got completion from peer 10.0.0.1<1> with status=12 opcode=0 len=0",
    ),
    Signature(
        id="rdma-cm-failed",
        pattern=(
            r"RDMA_CM_EVENT_(?P<event>ADDR_ERROR|ROUTE_ERROR|UNREACHABLE|CONNECT_ERROR|REJECTED)\b"
            r"(?:[;,:]| with)? (?:error|status)"
            r"|\brdma_(?P<call>resolve_addr|resolve_route|bind_addr|getaddrinfo|listen"
            r"|create_event_channel)(?: failed)?: (?:No such device|No such file|Cannot assign"
            r"|Connection timed out|Network is unreachable|Invalid argument)"
        ),
        cause=(
            "RDMA's connection manager made no connection ({event}). ADDR_ERROR and `No such "
            "device` mean an address that is on no RDMA interface, ROUTE_ERROR and UNREACHABLE a "
            "peer that does not answer, REJECTED one where nothing listens."
        ),
        fix=(
            "Use the addresses of the fabric, not of the LAN, pass /dev/infiniband to the "
            "container, and run `{task:links.verify}`."
        ),
        source=(
            "k8snetworkplumbingwg/sriov-network-device-plugin#342; linux-rdma/perftest#54; "
            "ofiwg/libfabric#3017"
        ),
        sample="Event: RDMA_CM_EVENT_ADDR_ERROR; error: -19.",
        near_miss="case RDMA_CM_EVENT_ADDR_ERROR:",
    ),
)

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
    Signature(
        id="rdma-device-denied",
        pattern=(
            r"Call to ibv_open_device failed|NET/IB : Unable to open device (?P<device>\w{1,40})"
            r"|^Failed to open device$|Fail(?:ed)? to open rdma device"
        ),
        cause="This process may not open the RDMA adapters of its host.",
        fix=(
            "Start the container with `--device /dev/infiniband` and `--ulimit memlock=-1`, as "
            "`{task:cluster.up}` does."
        ),
        source="NVIDIA/nccl#451; hustcat/k8s-rdma-device-plugin#8",
        leads_to=("nccl-tcp", "nccl-group-failed"),
        sample="misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed",
        near_miss="Failed to open device /dev/video0",
    ),
    Signature(
        id="imex-not-permitted",
        pattern=r"operation not permitted in expression cuMemC|cuMemCreate failed: operation not p",
        cause="CUDA may not share memory between hosts: that needs NVLink between them, and IMEX.",
        fix="Sparks have no NVLink between hosts: leave NCCL_MNNVL_ENABLE and such options off.",
        source="NVIDIA/nvbandwidth#39; NVIDIA/nvbandwidth#46; microsoft/mscclpp#467",
        sample="[CUDA_ERROR_NOT_PERMITTED] operation not permitted in expression cuMemCreate(&h)",
        near_miss="cuMemCreate failed: out of memory",
    ),
    Signature(
        id="rdma-port-error",
        pattern=(
            r"Got async (?:error )?event ?: (?P<what>port error|local catastrophic error"
            r"|device fatal\w*)"
        ),
        cause="The network adapter of this host reported: {what}. Its link went down or flaps.",
        fix=(
            "Look for `Link down` in `sudo dmesg` on that host, reseat the cable, and run "
            "`{task:links.verify}`, which counts errors of each rail."
        ),
        source="Lightning-AI/lit-llama#380; llm-d/llm-d#191",
        leads_to=("rdma-retry-exceeded", "rdma-transfer-failed", "nccl-group-failed"),
        sample="transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : port error",
        near_miss="NCCL INFO NET/IB : Got async event : GID table change",
    ),
    Signature(
        id="gloo-peer-closed",
        pattern=(
            r"gloo/transport/tcp/pair\.cc:\d{1,5}\] (?:Connection closed by peer \["
            r"|Read error \[[^\]\n]{1,60}\]\S{0,8}: Connection reset by peer)"
        ),
        cause="Another rank closed its connection in the middle: it failed or was stopped.",
        fix="Read the log of the other ranks for their first error; this one lost its partner.",
        source="vllm-project/vllm#6308; pytorch/pytorch#75512",
        role=FailureRole.SYMPTOM,
        sample=(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed "
            "by peer [10.233.87.118]:43139"
        ),
        near_miss="gloo/transport/tcp/pair.cc:144] no error",
    ),
    Signature(
        id="ucx-failed",
        pattern=r"\bUCX {1,4}(?:ERROR|FATAL) {1,4}(?P<what>\S.{0,200})",
        cause="UCX, which moves KV caches between engines (NIXL), failed: {what}",
        fix=(
            "Set UCX_NET_DEVICES per host to the rails of the fabric, check them with "
            "`{task:links.verify}`, and read the log of the other side."
        ),
        source="ai-dynamo/nixl#1983; sgl-project/sglang PR#27894",
        role=FailureRole.SYMPTOM,
        sample=(
            "ib_mlx5_dv.c:452  UCX  ERROR   mlx5dv_devx_obj_create(CQ) failed on mlx5_1, syndrome "
            "0x2aac7c: Remote I/O error"
        ),
        near_miss="ucp_worker.c:1903 UCX  INFO    ucp_context_2 inter-node cfg#3 rma(rc_mlx5)",
    ),
    Signature(
        id="nccl-peer-refused",
        pattern=(
            r"NCCL WARN .{0,60}[Cc]onnect to (?P<peer>[\w.:\[\]]{1,60})<(?P<port>\d{1,5})> "
            r"(?:returned|failed)[ :]{0,3}(?:\d{1,3}\()?Connection refused"
        ),
        cause=(
            "Nothing listens at {peer} on port {port}: that rank failed, or it announced an "
            "address of another network, such as docker0 or a VPN."
        ),
        fix=(
            "Read that rank's log; {peer} must be an address of the fabric: NCCL_SOCKET_IFNAME per "
            "host, which `{task:cluster.up}` sets from link_interfaces."
        ),
        source="pytorch/pytorch#38702; espnet/espnet#1940",
        role=FailureRole.SYMPTOM,
        leads_to=("nccl-proxy-failed", "nccl-group-failed"),
        sample="NCCL WARN Connect to 10.38.10.112<21724> failed : Connection refused",
        near_miss="NCCL INFO Call to connect returned Connection refused, retrying",
    ),
    Signature(
        id="store-closed",
        pattern=(
            r"(?:recvValue|sendBytes|waitForInput|recvVector) failed on SocketImpl\(.{0,200}"
            r"remote=\[(?P<peer>[^\]\n]{1,120})\]"
            r"|TCPStore server has shut down too early"
            r"|in _call_store\n.{1,200}\nRuntimeError: (?:Broken pipe|Connection reset by peer)"
        ),
        cause="The rank that holds the group together, rank 0 ({peer}), went away first.",
        fix="Read the head's log for its first error; this rank only lost it.",
        source="gpustack/gpustack#6019; xorbitsai/inference#4421",
        role=FailureRole.SYMPTOM,
        sample=(
            "[c10d] sendBytes failed on SocketImpl(fd=67, addr=[a]:36214, remote=[b]:43145): "
            "Broken pipe"
        ),
        near_miss="[c10d] The hostname of the client socket cannot be retrieved. err=-3",
    ),
)

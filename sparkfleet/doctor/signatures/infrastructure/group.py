"""Failures while the ranks form a group: NCCL's library, its connections, Gloo and the store."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="nccl-library-missing",
        pattern=(
            r"Failed to (?:load|import) NCCL library\b"
            r"|libnccl\.so\.2: cannot open shared object"
        ),
        cause="vLLM finds no NCCL library, which every rank of more than one GPU needs.",
        fix=(
            "Remove VLLM_NCCL_SO_PATH from vllm_env and the image, or install the vLLM and the "
            "PyTorch of one release again; both bring the library."
        ),
        source="vllm-project/vllm#4257; rh-aiservices-bu/llm-on-openshift#57",
        sample=(
            "Failed to load NCCL library from libnccl.so.2. It is expected if you are not running "
            "on NVIDIA/AMD/MTHREADS GPUs."
        ),
        near_miss="NET/Plugin: Could not find: libnccl-net.so",
    ),
    Signature(
        id="peer-unreachable",
        pattern=(
            r"[Cc]onnect to (?P<peer>[\w.:\[\]]{1,60})<(?P<port>\d{1,5})> (?:returned|failed)"
            r"[ :]{0,3}(?:\d{1,3}\()?(?P<why>No route to host|Connection timed out"
            r"|Network is unreachable|Host is unreachable"
            r"|Software caused connection abort)"
            r"|connect returned (?:No route to host|Network is unreachable)(?!, retrying)"
        ),
        context=r"Bootstrap ?: Using (?:\S{1,40}?:)?(?P<own>\d[\d.]{6,14})<",
        cause="{own} cannot reach {peer} on port {port} ({why}): a firewall or a route blocks it.",
        fix=(
            "Allow all ports between the fabric addresses of the hosts (`sudo ufw allow in on "
            "<interface>`), then run `{task:links.verify}`, which checks the routes."
        ),
        source=(
            "sgl-project/sglang#3820; NVIDIA/nccl#1105; NVIDIA/nccl PR#1311; NVIDIA/nccl PR#1618"
        ),
        leads_to=("nccl-group-failed", "rendezvous-unreachable"),
        sample=(
            "NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> returned 113(No route to host)"
            " errno 115(Operation now in progress)"
        ),
        near_miss="NCCL WARN Connect to 10.0.0.4<56849> returned 111(Connection refused)",
    ),
    Signature(
        id="nccl-nvls-failed",
        pattern=(
            r"transport/nvls\.cc:\d{1,5} NCCL WARN (?:Cuda failure|Failed)"
            r"|Failed to bind NVLink SHARP \(NVLS\) Multicast memory"
        ),
        cause="NCCL cannot use multicast over NVLink (NVLS) here, although the driver offers it.",
        fix="Set NCCL_NVLS_ENABLE: 0 in nccl_env; a host with one GPU has no NVLink anyway.",
        source="NVIDIA/nccl#1672; NVIDIA/nccl#1769",
        leads_to=("nccl-cuda-failed", "nccl-group-failed"),
        sample="Failed to bind NVLink SHARP (NVLS) Multicast memory: CUDA error 401",
        near_miss="NCCL INFO NVLS multicast support is not available on dev 0",
    ),
    Signature(
        id="nccl-shared-memory",
        pattern=(
            r"Error while (?:attaching to|creating) shared memory segment /dev/shm/"
            r"|Error: failed to extend /dev/shm/nccl-"
        ),
        cause=(
            "NCCL's shared memory is missing: /dev/shm is full or too small, or the processes of "
            "this host do not see the same one."
        ),
        fix=(
            "Start the container with `--ipc=host` or a larger `--shm-size` (`{task:cluster.up}` "
            "does this), and look for full memory with `df /dev/shm`."
        ),
        source="NVIDIA/nccl#1589",
        leads_to=("nccl-proxy-failed", "nccl-group-failed"),
        sample=(
            "NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-glnlGK (size "
            "14156128), error: No such file or directory (2)"
        ),
        near_miss="NCCL INFO MMAP imported shareable host buffer /dev/shm/nccl-I9oUed size 4096",
    ),
    Signature(
        id="nccl-cuda-failed",
        pattern=r"NCCL WARN Cuda failure (?:\d{1,4} )?'(?P<what>[^'\n]{1,120})'",
        cause="A CUDA call of NCCL failed on this host: {what}.",
        fix=(
            "Check the GPU there with `nvidia-smi` and the kernel's log for Xid; restart the "
            "container, then the host."
        ),
        source="NVIDIA/nccl#1029; NVIDIA/nccl#846",
        role=FailureRole.SYMPTOM,
        leads_to=("nccl-group-failed",),
        sample="init.cc:263 NCCL WARN Cuda failure 'initialization error'",
        near_miss="NCCL INFO cudaDriverVersion 13000",
    ),
    Signature(
        id="nccl-peer-closed",
        pattern=(
            r"NCCL WARN .{0,60}(?:Connection closed by remote peer "
            r"|Call to (?:recv|send) .{0,90}failed : (?:Connection reset by peer|Broken pipe))"
        ),
        cause="Another rank closed its connection in the middle: it failed or was stopped.",
        fix="Check that host's log for its first error; this one only lost its partner.",
        source="NVIDIA/nccl#1612; NVIDIA/nccl-tests#166",
        role=FailureRole.SYMPTOM,
        leads_to=("nccl-proxy-failed", "nccl-group-failed"),
        sample="NCCL WARN socketProgress: Connection closed by remote peer node1<57557>",
        near_miss="NCCL INFO [Service thread] Connection closed by localRank 0",
    ),
    Signature(
        id="nccl-foreign-connection",
        pattern=r"socketFinalizeAccept: wrong (?P<what>magic|type) ",
        cause=(
            "Something that does not belong to this run connected to NCCL's port: a port scan, a "
            "health check, or a rank of another run or NCCL version. NCCL may hang after it."
        ),
        fix=(
            "Stop what scans these ports, stop leftover ranks (`{task:cluster.down}`), and start "
            "all hosts from one image; newer NCCL passes over such connections."
        ),
        source="NVIDIA/nccl#1808; NVIDIA/nccl PR#1880",
        role=FailureRole.WARNING,
        sample=("NCCL WARN socketFinalizeAccept: wrong magic 74656d2f20544547 != 7970663b906d70b9"),
        near_miss="NCCL INFO socketFinalizeAccept: connection accepted",
    ),
    Signature(
        id="nccl-proxy-failed",
        pattern=(
            r"(?:\[Proxy Service \d{1,5}\] Failed to execute operation "
            r"|\[Service thread\] Error encountered progressing operation=)(?P<what>\w{1,30})"
        ),
        context=r"NCCL WARN (?P<warning>(?!\[Proxy|\[Service).{1,300})",
        cause="NCCL's operation {what} failed; its last warning: {warning}.",
        fix="Run `{task:links.verify}`; NCCL_DEBUG: INFO in nccl_env shows the warning before it.",
        source="NVIDIA/nccl-tests#111; NVIDIA/nccl-tests#166",
        role=FailureRole.SYMPTOM,
        leads_to=("nccl-group-failed",),
        sample=(
            "NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> failed : Connection refused\n"
            "NCCL WARN [Proxy Service 0] Failed to execute operation Connect from rank 0, retcode 2"
        ),
        near_miss="NCCL INFO [Proxy Service 0] Device 0 CPU core 3",
    ),
    Signature(
        id="nccl-group-failed",
        pattern=(
            r"NCCL (?:[eE]rror|failure)(?: \d{1,2})?(?: in)?: (?:[^\s,]{1,300}, )?"
            r"(?P<what>invalid (?:usage|argument)|unhandled (?:system|cuda) error)"
        ),
        context=r"NCCL WARN (?P<warning>.{1,300})",
        cause="NCCL could not form the group: {what}; its last warning: {warning}.",
        fix=(
            "Run `{task:links.verify}`; NCCL_DEBUG: INFO in nccl_env makes NCCL say more. An "
            "invalid argument on all hosts comes from another NCCL than the preloaded one: set "
            "VLLM_NCCL_SO_PATH in vllm_env to that library."
        ),
        source=(
            "NCCL's own message; MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks PR#4; "
            "ntxf31415/deepseek-v4-vision-exp-dgxspark-tp4-switchless-ring docs/pitfalls.md"
        ),
        role=FailureRole.SYMPTOM,
        near_miss="NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 - Init COMPLETE",
    ),
    Signature(
        id="collective-watchdog",
        pattern=(
            r"Watchdog caught collective operation timeout|(?i:\bwatchdog\b.{0,60}\b600\b)"
            r"|(?:Exception|error)\b.{0,60} detected by watchdog at work|Timeout at NCCL work: \d"
            r"|ProcessGroupNCCL's watchdog got stuck|\bHeartbeat monitor timed out"
        ),
        cause="A collective timed out: another rank was compiling a kernel, or is dead.",
        fix="Check the other rank's log; keep the Triton cache and warm up after a start.",
        source="MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#117",
        role=FailureRole.SYMPTOM,
        recorded=False,
        near_miss="watchdog: checked the ranks after 60 s",
    ),
    Signature(
        id="gloo-barrier-timeout",
        pattern=(
            r"gloo/.{0,60}Timed out waiting \d{4,9}ms|(?i:gloo.{0,60}\b1800\b)"
            r"|\bwait timeout after \d{4,9}ms, keys: "
        ),
        cause="A rank waited in vain for another: that one tuned its kernels, or is dead.",
        fix=(
            "Check the logs of the other ranks; keep the compile caches of all hosts, or clear "
            "them on all."
        ),
        source="getainode/ainode PR#136",
        role=FailureRole.SYMPTOM,
        recorded=False,
        near_miss="gloo barrier reached after 18 s",
    ),
    Signature(
        id="clients-not-joined",
        pattern=r"waiting for clients\. (?P<joined>\d+)/(?P<all>\d+) clients joined",
        cause="Only {joined} of {all} ranks joined: a worker is down, or its port is blocked.",
        fix="Check the worker's log first, then run `{task:links.verify}` for the port.",
        source="eugr/spark-vllm-docker#335",
        role=FailureRole.SYMPTOM,
        near_miss="All 2 clients joined the store.",
    ),
    Signature(
        id="rendezvous-unreachable",
        pattern=(
            r"The client socket has (?:timed out|failed to connect)"
            r"|The server socket on \S{1,80} has timed out"
        ),
        cause="A rank could not reach the head: it is down, or its address or port is blocked.",
        fix=(
            "Check the head's log first, then run `{task:links.verify}` for the port; the address "
            "in the line must be one of the fabric, not of a VPN (VLLM_HOST_IP)."
        ),
        source="PyTorch's own message",
        role=FailureRole.SYMPTOM,
        near_miss="The client socket has connected to [spark0]:29501",
    ),
    Signature(
        id="mpi-daemon-not-started",
        pattern=(
            r"(?:ORTE|PRTE|prterun|mpirun) was unable to (?:reliably )?start (?:one or more "
            r"daemons|the daemon)"
        ),
        cause=(
            "mpirun could not start its daemon on another host: no SSH to it by that name, no "
            "Open MPI in the PATH of a non-login shell there, or no way back to this host."
        ),
        fix=(
            "Read the line before it, which often is ssh's; `ssh HOST which orted` must work "
            "without a password. Give mpirun `--mca btl_tcp_if_include` and `--mca "
            "oob_tcp_if_include` with the interface of the fabric."
        ),
        source=(
            "awslabs/awsome-distributed-ai#868; Azure/aks-rdma-infiniband#30; "
            "triton-inference-server/tensorrtllm_backend#698"
        ),
        role=FailureRole.SYMPTOM,
        sample="ORTE was unable to reliably start one or more daemons.",
        near_miss="mpirun was unable to find the specified executable file",
    ),
    Signature(
        id="mpi-rank-ended",
        pattern=(
            r"(?:mpirun|mpiexec|prterun) noticed that process rank (?P<number>\d{1,6}) .{0,60}?"
            r"(?:on node (?P<node>\S{1,120}) )?exited on\s{1,2}signal (?P<signal>\d{1,2})"
        ),
        cause=(
            "Signal {signal} ended rank {number} on host {node}: 9 is a kill, usually by the OOM "
            "killer, 6 and 11 are crashes of the program itself."
        ),
        fix="Read that rank's own output, and `sudo dmesg` on that host for an OOM kill.",
        source="NVIDIA/nccl-tests#218; open-mpi/ompi#2661; NVIDIA/nccl#1419",
        role=FailureRole.SYMPTOM,
        sample=(
            "mpirun noticed that process rank 3 with PID 1167 on node 10.10.21.2 exited on signal "
            "11 (Segmentation fault)."
        ),
        near_miss="mpirun noticed that the job aborted, but has no info as to the process",
    ),
    Signature(
        id="nccl-test-failed",
        pattern=r"Test (?P<library>CUDA|NCCL) failure \S{1,40}:\d{1,5} '(?P<why>[^'\n]{1,120})",
        context=r"NCCL WARN (?P<warning>.{1,300})",
        cause="A call of {library} in nccl-tests failed: {why}; NCCL's last warning: {warning}.",
        fix=(
            "Of an invalid device ordinal, give it `-g 1` and one rank a host, since a Spark has "
            "one GPU; otherwise repeat it with NCCL_DEBUG=INFO and run `{task:links.verify}`."
        ),
        source="NVIDIA/nccl-tests#92; NVIDIA/nccl#1332",
        role=FailureRole.SYMPTOM,
        sample="node1: Test CUDA failure common.cu:963 'invalid device ordinal'",
        near_miss=" .. node1 pid 198671: Test failure common.cu:925",
    ),
    Signature(
        id="mpich-not-started",
        pattern=r"Fatal error in (?:P?MPI|internal)_Init\w{0,12}: (?P<why>[\w ]{1,80})",
        cause="MPI did not come up between the ranks ({why}), before NCCL was used.",
        fix=(
            "Start a program with the mpirun of the MPI that it was built with, on all hosts the "
            "same; first `mpirun -hosts A,B hostname`."
        ),
        source="NVIDIA/nccl-tests#92; mpi4py/mpi4py#281",
        role=FailureRole.SYMPTOM,
        sample=(
            "Abort(3712399) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI "
            "error, error stack:"
        ),
        near_miss="MPI_Init: done",
    ),
)

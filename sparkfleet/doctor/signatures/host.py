"""Failures of a host: driver, Docker, SSH, session and clock."""

from __future__ import annotations

import re

from sparkfleet.doctor.signatures.row import NOWHERE, Clues, FailureRole, Signature, find_first_end


def _shows_no_connectx(match: re.Match[str], _clues: Clues) -> bool:
    """Return False for the interface of a list that has one of the ConnectX-7 as well."""
    return not match["name"] or find_first_end(r"(?m)^enP?\d+p1s0f", match.string) == NOWHERE


ROWS = (
    Signature(
        id="semaphores-removed",
        pattern=r"SemLock\b(?:.{0,300}\n){0,8}?.{0,300}FileNotFoundError|FileNotFoundError.{0,300}SemLock",
        cause=(
            "The executor's semaphores do not exist: systemd-logind removed them when the SSH "
            "session ended, or mp, which works on one host only, started a worker on another."
        ),
        fix=(
            "Run `loginctl enable-linger` on that host, or `{task:hosts.prepare}`; over several "
            "hosts set vllm_executor: ray, or start one rank on each."
        ),
        source="eugr/spark-vllm-docker#352",
        recorded=False,
        near_miss="_multiprocessing.SemLock created",
    ),
    Signature(
        id="nvml-lost",
        pattern=r"Failed to initialize NVML: Unknown Error",
        cause="`systemctl daemon-reload` removed the container's GPU (systemd cgroup driver).",
        fix="Restart the container; set Docker's cgroup driver to cgroupfs.",
        source="TechPreacher/dgx-spark-vllm-cluster README",
        near_miss="Initialized NVML",
    ),
    Signature(
        id="driver-library-mismatch",
        pattern=(
            r"(?i)driver/library version mismatch|NVRM: API mismatch: the client has the version"
            r"|failed to initialize NVML: Function Not Found"
        ),
        cause="The NVIDIA driver was updated, but the old kernel module is still loaded.",
        fix="Reboot that host.",
        source=(
            "NVIDIA/nvidia-container-toolkit#394; tinygrad/open-gpu-kernel-modules#47; "
            "NVIDIA/ubuntu-packaging-nvidia-driver#3"
        ),
        sample="Failed to initialize NVML: Driver/library version mismatch",
        near_miss="Failed to initialize NVML: Unknown Error",
    ),
    Signature(
        id="driver-not-loaded",
        pattern=r"(?:nvml error: d|initialize NVML: D)river (?:not loaded|Not Loaded)",
        cause="The running kernel has no NVIDIA module.",
        fix="Boot a kernel that has it: `find /lib/modules -name 'nvidia.ko*'` lists them.",
        source="TechPreacher/dgx-spark-vllm-cluster/preboot_check.sh",
        near_miss="nvml: driver loaded",
    ),
    Signature(
        id="gpu-not-found",
        pattern=r"^No devices were found",
        cause="The driver finds no GPU: its firmware did not start.",
        fix="Reboot that host; `nvidia-smi -L` must then list NVIDIA GB10.",
        source="nvidia-smi's own message, recorded on a GB10",
        near_miss="1 device was found",
    ),
    Signature(
        id="gpu-init-failed",
        pattern=r"NVRM: .{0,60}RmInitAdapter failed!",
        cause=(
            "The driver cannot start the GPU: proprietary kernel modules (a GB10 needs the open "
            "ones), or firmware that a reboot does not reset."
        ),
        fix=(
            "Install the driver's -open packages on that host; then power it off and on, not only "
            "reboot. `nvidia-smi -L` must list NVIDIA GB10."
        ),
        source="NVIDIA/open-gpu-kernel-modules#673",
        leads_to=("gpu-not-found",),
        sample="NVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x62:0x1a:2631)",
        near_miss="NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64",
    ),
    Signature(
        id="cuda-unknown-error",
        pattern=r"RuntimeError: CUDA unknown error|initialization error: cuda error: unknown error",
        cause=(
            "CUDA does not start, although the driver is loaded: the module nvidia_uvm is missing "
            "or is that of an older driver, or the container lacks its device."
        ),
        fix=(
            "Run `sudo nvidia-modprobe -u -c=0` on that host and restart the container; if that "
            "does not help, reboot."
        ),
        source="NVIDIA/nvidia-docker#106; AbdBarho/stable-diffusion-webui-docker#388",
        sample=(
            "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up "
            "environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start."
        ),
        near_miss="RuntimeError: CUDA error: unspecified launch failure",
    ),
    Signature(
        id="container-without-gpu",
        pattern=r"The NVIDIA Driver was not detected\. {1,2}GPU functionality",
        cause="The container has no GPU: it was started without `--gpus all`.",
        fix=(
            "Start it with `--gpus all`; `docker run --rm --gpus all IMAGE nvidia-smi` on that "
            "host shows whether the NVIDIA container toolkit works."
        ),
        source="NVIDIA/nvidia-docker#464; NVIDIA/nvidia-docker#1548",
        role=FailureRole.WARNING,
        sample=(
            "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available."
        ),
        near_miss="NOTE: MOFED driver for multi-node communication was not detected.",
    ),
    Signature(
        id="nvml-memory-unsupported",
        pattern=(
            r"NVMLError_NotSupported\b|nvmlDeviceGetMemoryInfo\w{0,4}.{0,40}NOT_SUPPORTED"
            r"|(?<!Ignoring )error getting device memory: Not Supported"
        ),
        cause="A program reads the GPU's memory with NVML, which a GB10 does not support.",
        fix=(
            "Use a version of that program that knows GB10; PyTorch's torch.cuda.mem_get_info() "
            "and /proc/meminfo show the free memory."
        ),
        source="https://docs.nvidia.com/dgx/dgx-spark/known-issues.html; NVIDIA/cosmos#180",
        sample="pynvml.NVMLError_NotSupported: Not Supported",
        near_miss="Ignoring error getting device memory: Not Supported",
    ),
    Signature(
        id="thread-limit",
        pattern=r"pthread_create\b.{0,60}Resource temporarily unavailable",
        cause="The host or the container may start no more threads: a limit of processes.",
        fix=(
            "Start the container without a pids limit (`--pids-limit -1`), raise nproc in "
            "/etc/security/limits.conf, or lower OPENBLAS_NUM_THREADS."
        ),
        source="vllm-project/vllm#13354",
        sample="pthread_create failed: Resource temporarily unavailable",
        near_miss="pthread_create failed for thread 1 of 48: Operation not permitted",
    ),
    Signature(
        id="threads-not-permitted",
        pattern=(
            r"pthread_create\b.{0,60}Operation not permitted"
            r"|'std::system_error'\n {1,4}what\(\): {1,4}Operation not permitted"
        ),
        cause="An old Docker's seccomp filter forbids the clone3 call of the image's glibc.",
        fix="Update Docker on that host to 20.10.10 or later.",
        source="coqui-ai/TTS#3439",
        sample="pthread_create failed for thread 1 of 48: Operation not permitted",
        near_miss="pthread_create failed: Resource temporarily unavailable",
    ),
    Signature(
        id="docker-permission",
        pattern=r"permission denied while trying to connect to the [Dd]ocker"
        r"|[Pp]ermission denied.{0,300}docker\.sock",
        cause="The user is not in the docker group, or the session is older than the group.",
        fix="Run `sudo usermod -aG docker $USER` on that host and log in again.",
        source="NVIDIA/xr-ai PR#525",
        near_miss="connected to the Docker daemon socket at unix:///var/run/docker.sock",
    ),
    Signature(
        id="ssh-host-key",
        pattern=r"Host key verification failed",
        cause="The host's key is not in known_hosts, or has changed.",
        fix="Check the key on the host itself, then connect with `ssh` once.",
        source="NVIDIA/dgx-spark-playbooks README; eugr/spark-vllm-docker README",
        recorded=False,
        near_miss="Host key verification succeeded.",
    ),
    Signature(
        id="ssh-publickey",
        pattern=r"Permission denied \(.{0,300}publickey",
        cause="The host accepts none of the offered keys.",
        fix="Run `ssh-copy-id` to that host, and `ssh-add` for a key with a passphrase.",
        source=(
            "NVIDIA/dgx-spark-playbooks README; eugr/spark-vllm-docker README; "
            "MiaAI-Lab/sparkDash#44"
        ),
        recorded=False,
        near_miss="Permission denied (password).",
    ),
    Signature(
        id="hostname-unresolved",
        pattern=r"Could not resolve hostname (?P<name>[^\s:]{1,253}):",
        cause="{name} has no address on this machine.",
        fix=(
            "Set ansible_host of {name} to its address. A single letter comes from a list of hosts "
            "that was split: list the hosts in an inventory, and select with --limit."
        ),
        source="OpenSSH's own message; spark-arena/sparkrun#257",
        near_miss="Resolved hostname spark9: 192.168.100.9",
    ),
    Signature(
        id="mdns-duplicate-name",
        pattern=(
            r"(?P<name>(?<=Host name conflict, retrying with )[\w-]{1,63}"
            r"|\b[\w-]{0,60}\d-\d{1,9}\.local\b)"
        ),
        cause="{name} is a name that mDNS generated for a second address of the host.",
        fix="Set ansible_host to an address instead of a .local name.",
        source="NVIDIA/dgx-spark-playbooks#56",
        role=FailureRole.WARNING,
        recorded=False,
        near_miss="ssh spark-01.local",
    ),
    Signature(
        id="tls-clock",
        pattern=(
            r"certificate is not yet valid|certificate has expired or is not yet valid"
            r"|not yet valid certificate|\bTLS\b.{0,300}\bvalidat"
        ),
        cause="A certificate is not valid yet by the clock of this host, which is wrong.",
        fix="Compare `date` there with the correct time; then run `sudo timedatectl set-ntp true`.",
        source="NVIDIA/dgx-spark-playbooks trt-llm README",
        recorded=False,
        near_miss="certificate verify failed: self-signed certificate in certificate chain",
    ),
    Signature(
        id="tls-untrusted",
        pattern=(
            r"certificate verify failed: (?:self.signed certificate|unable to get .{0,9}issuer)"
            r"|x509: certificate signed by unknown authority"
        ),
        cause="A certificate is signed by an authority that this host does not know.",
        fix=(
            "A proxy that decrypts TLS signs with its own authority: add its certificate on that "
            "host with update-ca-certificates, and name it in SSL_CERT_FILE and REQUESTS_CA_BUNDLE."
        ),
        source="Stability-AI/stable-virtual-camera#23; Purfview/whisper-standalone-win#75",
        leads_to=("hub-unreachable", "model-config-missing"),
        sample=(
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate "
            "in certificate chain (_ssl.c:1007)"
        ),
        near_miss="certificate verify failed: certificate is not yet valid (_ssl.c:1007)",
    ),
    Signature(
        id="cable-missing",
        pattern=(
            r"^(?P<name>enP7s7) +\w+ +[\da-f:]{17} <"  # a line of `ip -br link`
            r"|Link detected: no \(No cable\)"
            r"|Port module event: (?:module \d{1,2}, )?Cable unplugged"
            r"|cx7-pcie-hotplug .{0,60}: Cable removal"
        ),
        holds=_shows_no_connectx,
        cause=(
            "A port has no cable, which is harmless for a cage that is not used. Without any "
            "cable, DGX OS powers the ConnectX-7 off, and no interface of it is left."
        ),
        fix=(
            "Plug in or reseat the QSFP cable on both hosts; `{task:links.show}` must then list "
            "its interfaces, else reboot that host."
        ),
        source=(
            "graham33/nixos-dgx-spark#165; NVIDIA developer forum, t/373900; "
            "guardkit/dgx-spark RUNBOOK-two-spark-bring-up.md; NVIDIA/NV-Kernels PR#271"
        ),
        role=FailureRole.WARNING,
        sample="\tLink detected: no (No cable)",
        near_miss=(
            "enp1s0f0np0      UP             4c:bb:47:00:00:01 <BROADCAST,UP,LOWER_UP>\n"
            "mlx5_core 0000:01:00.0: Port module event: module 0, Cable plugged"
        ),
    ),
    Signature(
        id="memory-almost-full",
        pattern=r"^Mem: +1\d\dGi(?: +\S+){4} +(?P<free>[0-7](?:\.\d+)?Gi|\d+Mi)$",
        cause="Only {free} of unified memory are available.",
        fix="Lower gpu-memory-utilization in vllm_args; see `{task:cluster.status}` for usage.",
        source=(
            "luisefigueroa/pulsar-gb10-vllm-stack results/post-soak-memory-20gb-20260801.txt; "
            "tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark PR#19; "
            "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47"
        ),
        role=FailureRole.WARNING,
        near_miss="Mem:   121Gi   20Gi   60Gi   10Mi   41Gi   100Gi",
    ),
    Signature(
        id="gpu-not-visible",
        pattern=(
            r"Failed to infer device type|No CUDA GPUs are available"
            r"|no CUDA-capable device is detected|Found no NVIDIA driver on your system"
        ),
        cause=(
            "The process sees no GPU: its container was started without one, its driver does not "
            "work, or CUDA_VISIBLE_DEVICES names none."
        ),
        fix=(
            "Run `nvidia-smi` on that host and in the container (`docker run --rm --gpus all IMAGE "
            "nvidia-smi`), and leave CUDA_VISIBLE_DEVICES unset."
        ),
        source="vllm-project/vllm#12847; vllm-project/vllm#807",
        sample="RuntimeError: No CUDA GPUs are available",
        leads_to=("platform-not-detected", "options-refused"),
        near_miss="Automatically detected platform cuda.",
    ),
    Signature(
        id="platform-not-detected",
        pattern=r"No platform detected, vLLM is running on UnspecifiedPlatform",
        cause=(
            "vLLM found no GPU when it started: its container was started without one, or the "
            "driver, its version or the installation of vLLM is not one that it can use."
        ),
        fix=(
            "Run `nvidia-smi` in the container (`docker run --rm --gpus all IMAGE nvidia-smi`); "
            "VLLM_LOGGING_LEVEL=DEBUG in vllm_env shows which platform was tried and why not."
        ),
        source=(
            "studio-dots-ai/dots.ocr#11; vllm-project/vllm#14954; vllm-project/vllm#16724; "
            "vllm-project/vllm#23661"
        ),
        role=FailureRole.SYMPTOM,
        leads_to=("options-refused",),
        sample="No platform detected, vLLM is running on UnspecifiedPlatform",
        near_miss="Automatically detected platform cuda.",
    ),
    Signature(
        id="gpu-off-the-bus",
        pattern=r"(?i)\b(?:GPU has )?fallen off (?:of )?the bus\b",
        cause="The driver has lost the GPU on the PCIe bus: a fault of power, heat or firmware.",
        fix=(
            "Switch that host off at the wall for a minute; a reboot is often not enough. Update "
            "its firmware with fwupdmgr if it happens again."
        ),
        source="NVIDIA/NVSentinel#155; NVIDIA/open-gpu-kernel-modules#507",
        sample="NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus.",
        near_miss="NVRM: Xid (PCI:000f:01:00): 31, MMU Fault",
    ),
    Signature(
        id="ssh-forwarding-prohibited",
        pattern=r"(?i)administratively[ _]prohibited",
        cause="The jump host does not forward connections to this address.",
        fix="Set `AllowTcpForwarding yes` in the jump host's sshd_config, or use another one.",
        source="andrewschenck/paramiko-jump#15; paramiko/paramiko#2436",
        sample="channel 0: open failed: administratively prohibited: open failed",
        near_miss="channel 0: open failed: connect failed: Connection refused",
    ),
    Signature(
        id="cache-database-broken",
        pattern=(
            r"sqlite3\.(?:OperationalError|DatabaseError): (?P<why>disk I/O error"
            r"|database disk image is malformed|database is locked|file is not a database)"
        ),
        cause=(
            "A cache that is an SQLite file, such as that of outlines, cannot be used: {why}. "
            "Several processes wrote it at once, or it is on a network filesystem."
        ),
        fix=(
            "Delete it on that host (`~/.cache/outlines`; the traceback names the program), and "
            "give each host a HOME or XDG_CACHE_HOME of its own on a local disk."
        ),
        source="sgl-project/sglang#2090; sgl-project/sglang#143",
        sample="sqlite3.OperationalError: disk I/O error",
        near_miss="sqlite3.OperationalError: no such table: cache",
    ),
)

"""Failures of NVIDIA's driver, of the GPU's firmware, and of the kernel below them."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="driver-not-reached",
        pattern=r"NVIDIA-SMI has failed because it couldn.t communicate with the NVIDIA driver",
        cause=(
            "The driver's kernel module is not loaded: after an update of the kernel it was not "
            "built for the new one, or Secure Boot rejects it."
        ),
        fix=(
            "On that host read `dkms status` and `sudo modprobe nvidia; sudo dmesg | tail`; "
            "install the driver for the running kernel (`uname -r`), then reboot."
        ),
        source=("GoogleCloudPlatform/compute-gpu-installation PR#18; deepin-community/kernel#2144"),
        leads_to=("gpu-not-visible", "driver-not-loaded"),
        sample=(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
            "sure that the latest NVIDIA driver is installed and running."
        ),
        near_miss="Failed to initialize NVML: Driver/library version mismatch",
    ),
    Signature(
        id="module-rejected",
        pattern=(
            r"Loading of (?:unsigned module|module with unavailable key) is rejected"
            r"|could not insert (?:module )?'?[\w./-]{1,120}?'?: (?:Key was rejected by service"
            r"|Required key not available)"
        ),
        cause="Secure Boot rejects a kernel module that is not signed with a key of this host.",
        fix=(
            "Install the signed driver of the distribution, or enrol its key with `sudo mokutil "
            "--import` and reboot; turning Secure Boot off works too."
        ),
        source=(
            "NVIDIA/gpu-operator#1726; "
            "JafarAkhondali/acer-predator-turbo-and-rgb-keyboard-linux-module#113"
        ),
        leads_to=("driver-not-reached", "gpu-not-visible"),
        sample="modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
        near_miss="nvidia: loading out-of-tree module taints kernel.",
    ),
    Signature(
        id="module-not-built",
        pattern=(
            r"(?:Bad return status for module build on kernel:|Your kernel headers for kernel) "
            r"(?P<kernel>\S{1,80})"
        ),
        cause="The driver's module could not be built for kernel {kernel}.",
        fix=(
            "Read the make.log that the message names; install the headers of that kernel and a "
            "driver that supports it, or boot the previous kernel."
        ),
        source="pop-os/linux PR#343; korvahannu/arch-nvidia-drivers-installation-guide#37",
        leads_to=("driver-not-reached",),
        sample="Error! Bad return status for module build on kernel: 6.12.10 (aarch64)",
        near_miss="nvidia/580.126.09, 6.17.0-1014-nvidia, aarch64: installed",
    ),
    Signature(
        id="gpu-firmware-stopped",
        pattern=(
            r"Timeout (?:after \d{1,6}s of )?waiting for RPC (?:response )?from (?:GPU\d{1,2} )?GSP"
            r"|_issueRpcAndWait: rpcSendMessage failed"
            r"|_kgspIsHeartbeatTimedOut: Heartbeat timed out"
            r"|NVRM: Xid \([^)\n]{1,40}\): (?:119|120),"
        ),
        cause="The GPU's firmware (GSP) no longer answers the driver: the GPU is lost until reset.",
        fix=(
            "Reboot that host, with the power off if it comes back; update driver and firmware, "
            "and send the output of `sudo nvidia-bug-report.sh` to NVIDIA."
        ),
        source="NVIDIA/open-gpu-kernel-modules#1230; Neroued/ninfer#12",
        leads_to=("gpu-unavailable", "gpu-fault", "cuda-unknown-error", "cuda-failed"),
        sample=(
            "NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 812751949 "
            "heartbeat 1899482"
        ),
        near_miss="NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.126.09",
    ),
    Signature(
        id="gpu-reset-required",
        pattern=(
            r"NV_ERR_RESET_REQUIRED|GPU requires reset"
            r"|GPU recovery action changed from .{1,60}(?:GPU|Node) Re(?:set|boot)"
        ),
        cause="After an earlier fault the GPU refuses work until it is reset.",
        fix=(
            "Reboot that host, then look in `sudo dmesg` for the Xid before this line; if it comes "
            "back after each start, the GPU is defective."
        ),
        source="scitix/sichek#51; kubernetes-sigs/dra-driver-nvidia-gpu#982",
        leads_to=("gpu-unavailable", "gpu-fault"),
        sample=(
            "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] "
            "(0x00000062) returned from status @ kernel_channel.c:2874"
        ),
        near_miss="GPU reset is not supported on this device",
    ),
    Signature(
        id="gpu-unavailable",
        pattern=(
            r"CUDA-capable devices? ?(?:\(s\) is/are|are) busy or unavailable"
            r"|cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE"
        ),
        cause=(
            "The GPU takes no new process: it needs a reset, or another process holds it in "
            "exclusive mode."
        ),
        fix=(
            "On that host, `nvidia-smi -q -d COMPUTE` must say Default, and `sudo dmesg | grep "
            "NVRM` nothing about a reset; otherwise reboot."
        ),
        source="kubernetes-sigs/dra-driver-nvidia-gpu#982; ggml-org/llama.cpp#11841",
        leads_to=("engine-start-failed",),
        sample="CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        near_miss="RuntimeError: No CUDA GPUs are available",
    ),
    Signature(
        id="gpu-fault",
        pattern=(
            r"NVRM: Xid \([^)\n]{1,40}\): (?:45,.{0,120}caused by previous Xid )?"
            r"(?P<xid>(?!45,|43,|169,|119,|120,)\d{1,3})(?:,|$)"
        ),
        cause=(
            "The driver reported a fault of the GPU, Xid {xid}. Of these 13, 31 and 43 are usually "
            "the program's, 48, 63, 64, 94 and 95 its memory's, 74 and 144 to 150 NVLink's."
        ),
        fix=(
            "Look up the number in NVIDIA's table (docs.nvidia.com/deploy/xid-errors). If it comes "
            "back with other programs, reboot, then test the GPU."
        ),
        source="autumnai/collenchyma-blas#14; ggml-org/llama.cpp#27102",
        role=FailureRole.SYMPTOM,
        leads_to=("cuda-illegal-memory", "cuda-failed"),
        sample="NVRM: Xid (PCI:0000:01:00): 31, Ch 00000013, engmask 00000101, intr 10000000",
        near_miss="NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001",
    ),
    Signature(
        id="kernel-stuck",
        pattern=(
            r"BUG: soft lockup - CPU#\d{1,4} stuck for (?P<seconds>\d{1,6})s!"
            r"(?: \[(?P<task>[^\]\n]{1,60})\])?"
        ),
        cause="The kernel was stuck for {seconds} s (task: {task}), in a driver or in hardware.",
        fix=(
            "Read the kernel's log before this line (`journalctl -k -b -1` after a reboot): a PCIe "
            "error or the GPU's driver comes first. Update kernel, driver and firmware."
        ),
        source="deepspeedai/DeepSpeed#925; flexflow/flexflow-train#261",
        role=FailureRole.SYMPTOM,
        sample="watchdog: BUG: soft lockup - CPU#7 stuck for 23s! [pytest:25222]",
        near_miss="watchdog: watchdog0: watchdog did not stop!",
    ),
    Signature(
        id="pcie-fatal",
        pattern=(
            r"AER: (?:Multiple )?Uncorrect(?:able|ed) \(Fatal\)"
            r"|PCIe Bus Error: severity=Uncorrect(?:able|ed) \((?:Fatal|Non-Fatal)\)"
        ),
        cause="A device on PCIe, often the network adapter, failed and dropped off the bus.",
        fix=(
            "Reboot that host with the power off; if it comes back, look at temperature and "
            "firmware of the device (`sudo lspci -s ADDRESS`), and have the machine checked."
        ),
        source="MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#146; rwth-i6/returnn#1500",
        leads_to=("kernel-stuck", "rdma-transfer-failed", "rdma-retry-exceeded"),
        sample="pcieport 0000:00:00.0: AER: Uncorrectable (Fatal)",
        near_miss="pcieport 0000:00:1d.0: AER: Corrected error received: 0000:07:00.0",
    ),
    Signature(
        id="gpu-held-by-nouveau",
        pattern=r"NVRM: The NVIDIA probe routine was not called for \d{1,3} device",
        cause="Another driver, usually nouveau, holds the GPU, so that NVIDIA's cannot.",
        fix=(
            "Install NVIDIA's driver from the packages of DGX OS, which turn nouveau off; run "
            "`sudo update-initramfs -u` and reboot."
        ),
        source="mattshma/bigdata#133; MrMEEE/ironhide#41",
        leads_to=("driver-not-reached", "driver-not-loaded"),
        sample="NVRM: The NVIDIA probe routine was not called for 1 device(s).",
        near_miss="NVRM: The NVIDIA probe routine failed for 1 device(s).",
    ),
    Signature(
        id="driver-in-use",
        pattern=(
            r"rmmod: ERROR: Module nvidia\w{0,12} is in use|Kernel module load error: Device or res"
            r"|An NVIDIA kernel module '[\w-]{1,20}' appears to already be loaded"
        ),
        cause="The driver cannot be exchanged while a desktop, an engine or a daemon uses it.",
        fix=(
            "Stop the engines and the desktop (`sudo systemctl isolate multi-user`) and "
            "nvidia-persistenced, or install the driver's packages and reboot."
        ),
        source="tinygrad/open-gpu-kernel-modules PR#20; Arc-Compute/LibVF.IO#20",
        sample="rmmod: ERROR: Module nvidia_drm is in use",
        near_miss="rmmod: ERROR: Module nouveau is not currently loaded",
    ),
    Signature(
        id="cuda-system-not-ready",
        pattern=(
            r"(?i)\bsystem not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY|cudaErrorSystemNotReady"
        ),
        cause=(
            "CUDA waits for a part of the machine that has not started (802): on a machine with "
            "NVSwitch its fabric manager, which a Spark does not have or need."
        ),
        fix=(
            "With NVSwitch install and start nvidia-fabricmanager in the version of the driver. "
            "Reboot a Spark; if it comes back, reinstall its driver."
        ),
        source=(
            "pytorch/pytorch#35710; pytorch/pytorch#167537; huggingface/huggingface_hub#4134; "
            "ollama/ollama#11963"
        ),
        leads_to=("gpu-not-visible", "symmetric-memory-failed", "engine-start-failed"),
        sample="RuntimeError: CUDA driver error: system not yet initialized",
        near_miss="CUDA error: the system is initialized",
    ),
)

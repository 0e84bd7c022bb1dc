"""Failures between an image or a wheel, its compilers and libraries, and this host."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

_MISSING = r"[\w.]{0,12}: cannot open shared object file"

ROWS = (
    Signature(
        id="ptxas-too-old",
        pattern=(
            r"ptxas\s{1,4}(?:fatal|error)\s{0,6}: .{0,60}\b(?P<arch>sm_1[0-2]\w{1,3})"
            r"|ptxas .{0,200}; fatal\s{0,6}: Unsupported \.version"
            r"|PTX \.version [\d.]{1,6} does not support \.target sm_1[02]"
        ),
        cause="Triton's own ptxas is older than the GPU, and cannot compile for it.",
        fix=(
            "Set TRITON_PTXAS_PATH: /usr/local/cuda/bin/ptxas in vllm_env, if the image has a CUDA "
            "13 toolkit there; otherwise use a newer image."
        ),
        source=(
            "triton-lang/triton#8539; gpustack/gpustack#4372; opendatalab/MinerU#4350; "
            "nvidia-cosmos/cosmos-reason2#30"
        ),
        leads_to=("jit-out-of-memory",),
        sample="ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
        near_miss="ptxas info    : Compiling entry function 'kernel' for 'sm_121a'",
    ),
    Signature(
        id="nvcc-too-old",
        pattern=(
            r"nvcc\s{1,4}(?:fatal|error)\s{0,6}: .{0,60}\b(?P<arch>(?:sm|compute)_1[0-2]\w{1,3})"
        ),
        cause="The CUDA toolkit in the image is older than the GPU: nvcc does not know {arch}.",
        fix=(
            "Use an image with CUDA 13 (a cu130 tag), or set CUDA_HOME in vllm_env to a CUDA 13 "
            "toolkit in it."
        ),
        source="amazon-science/FeatGraph#12; NVIDIA/cuEquivariance PR#251",
        sample="nvcc fatal   : Unsupported gpu architecture 'compute_121a'",
        near_miss="nvcc fatal   : Unknown option '--fast'",
    ),
    Signature(
        id="no-kernel-image",
        pattern=(
            r"no kernel image is available for execution on the device|NoKernelImageForDevice"
            r"|device kernel image is invalid"
        ),
        cause="vLLM, PyTorch or a kernel library in this image has no code for the GB10 (sm_121).",
        fix=(
            "Use an image or wheels for CUDA 13 on aarch64 (a cu130 tag, or NVIDIA's NGC image); "
            "for NVFP4 try moe-backend: marlin in vllm_args."
        ),
        source="vllm-project/vllm#30855; vllm-project/vllm#36835; gpustack/gpustack#2097",
        sample=(
            "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the "
            "device"
        ),
        near_miss="no image is available for this device",
    ),
    Signature(
        id="sm121-kernel-missing",
        pattern=(
            r"Failed to open: .{0,300}sm_?121\w{0,60}\.cuh"
            r"|No supported CUDA architectures found for major versions"
            r"|\.cuh:\d{1,6}: Unsupported architecture"
        ),
        cause="A kernel library of this image (DeepGEMM, FlashInfer) has no kernel for the GB10.",
        fix=(
            "Use an image whose kernels include sm_121, or another backend: VLLM_USE_DEEP_GEMM: 0 "
            "in vllm_env, attention-backend or moe-backend in vllm_args."
        ),
        source=(
            "spark-arena/sparkrun#220; vllm-project/vllm PR#31740; flashinfer-ai/flashinfer#5445"
        ),
        sample="Failed to open: /x/deep_gemm/include/deep_gemm/impls/sm121_fp8_mqa_logits.cuh",
        near_miss="Failed to open: /x/deep_gemm/include/config.json",
    ),
    Signature(
        id="cuda12-wheel",
        pattern=(
            r"lib(?P<library>cudart|cublas|cublasLt|nvrtc|cupti|nvJitLink|cusparse)"
            rf"\.so\.1[12]{_MISSING}"
        ),
        cause="vLLM or a library was built for CUDA 12, but this environment has CUDA 13.",
        fix=(
            "Install the cu130 wheel of it for aarch64 (vllm, torch and their kernels from one "
            "index), or use an image with a cu130 tag."
        ),
        source=(
            "transformerlab/transformerlab-app#1334; vllm-project/vllm#36099; "
            "vllm-project/vllm#52300"
        ),
        sample="ImportError: libcudart.so.12: cannot open shared object file: No such file",
        near_miss="ImportError: libfoo.so.12: cannot open shared object file: No such file",
    ),
    Signature(
        id="cuda13-wheel",
        pattern=(
            r"lib(?P<library>cudart|cublas|cublasLt|nvrtc|cupti|nvJitLink)" rf"\.so\.13{_MISSING}"
        ),
        cause="vLLM or a library was built for CUDA 13, but this environment has CUDA 12.",
        fix="Use an image with CUDA 13, or install torch and vllm from one cu130 index.",
        source="vllm-project/vllm#52300; kaito-project/kaito#2086",
        sample="ImportError: libcudart.so.13: cannot open shared object file: No such file",
        near_miss="ImportError: libfoo.so.13: cannot open shared object file: No such file",
    ),
    Signature(
        id="driver-library-missing",
        pattern=rf"libcuda\.so\.1{_MISSING}|libnvidia-ml\.so\.1{_MISSING}",
        cause="The container has no NVIDIA driver library: it was started without a GPU.",
        fix=(
            "Start it with `--gpus all` (`{task:cluster.up}` does this); install the NVIDIA "
            "container toolkit on that host if Docker does not know the option."
        ),
        source="NVIDIA/nvidia-docker#400; huggingface/text-generation-inference#2070",
        sample="ImportError: libcuda.so.1: cannot open shared object file: No such file",
        near_miss="Found libcuda.so.1: /usr/lib/aarch64-linux-gnu/libcuda.so.1",
    ),
    Signature(
        id="pytorch-abi-mismatch",
        pattern=(
            r"_ZN3c1013MessageLoggerC1ENS_14SourceLocationEib"
            r"|undefined symbol: _ZN?K?(?:2at|3c10|5torch|5caffe2)"
            r"|undefined symbol: (?:aoti_torch|torch_)\w"
        ),
        cause="vLLM or a kernel of this image was built against another PyTorch than it contains.",
        fix=(
            "Pin a released image by digest, or reinstall vllm and torch together from one index; "
            "rebuild wheels of your own from scratch."
        ),
        source=(
            "eugr/spark-vllm-docker#135; spark-arena/sparkrun#127; vllm-project/vllm#13608; "
            "vllm-project/vllm#5501; Tencent-Hunyuan/HunyuanImage-3.0#56"
        ),
        sample="undefined symbol: _ZN3c1013MessageLoggerC1ENS_14SourceLocationEib",
        near_miss="undefined symbol: PyUnicode_AsUTF8",
    ),
    Signature(
        id="vllm-not-installed",
        pattern=(
            r"PackageNotFoundError: (?:No package metadata was found for )?(?:The )?'?vllm\b"
            r"|The vLLM package was not found, so its version could not be inspected"
            r"|No module named 'vllm'|\bvllm: (?:command )?not found"
        ),
        cause=(
            "The Python that runs here has no vLLM, or has it under another name, as builds from "
            "a fork do."
        ),
        fix=(
            "Set engine_venv to the environment that has it, or use an image that does; "
            "`vllm --version` inside must print a version."
        ),
        source="hiyouga/LlamaFactory#8411; vllm-project/vllm PR#13501",
        sample=("importlib.metadata.PackageNotFoundError: No package metadata was found for vllm"),
        near_miss="WARNING The ray package was not found, so its version could not be inspected.",
    ),
    Signature(
        id="python-package-missing",
        pattern=(
            r"(?:^ModuleNotFoundError: No module named '(?!\w{1,60}\.)"
            r"|^(?:importlib[._]metadata\.)?PackageNotFoundError: "
            r"(?:No package metadata was found for )?(?:The )?'?"
            r"|^ImportError: .{0,300}?\b(?=scipy)"
            r"|^ImportError: Please install (?!Ray\b)"
            r"|^ImportError: This modeling file requires the following packages that were not "
            r"found in your environment: )"
            r"(?P<name>(?!(?:vllm|torch|transformers|flashinfer|triton)\b)"
            r"[\w-]{1,60}(?:\.[\w-]{1,60}){0,3})"
        ),
        cause="The image has no Python package for {name}, which the model or an option needs.",
        fix=(
            "Add the package to the recipe's engine_pip, or use an image that has it; for "
            "fastsafetensors, set load-format: safetensors instead."
        ),
        source="Python's own message; SystemPanic/vllm-windows#49; modelscope/ms-swift#1905",
        sample="ModuleNotFoundError: No module named 'fastsafetensors'",
        near_miss="INFO [a.py:1] using fastsafetensors 0.1.15",
    ),
    Signature(
        id="pytorch-cpu-build",
        pattern=(
            rf"lib(?:torch_cuda|c10_cuda|torch_cuda_linalg)\.so{_MISSING}"
            r"|Torch not compiled with CUDA enabled"
        ),
        cause=(
            "The PyTorch of this environment has no CUDA: pip replaced it by a CPU build, which "
            "vLLM was not compiled against."
        ),
        fix=(
            "Pin a released image by digest, or reinstall vllm and torch together from one cu130 "
            "index for aarch64."
        ),
        source="eugr/spark-vllm-docker#265; vllm-project/vllm#28129",
        sample="ImportError: libtorch_cuda.so: cannot open shared object file: No such file",
        near_miss="Loaded libtorch_cuda.so",
    ),
    Signature(
        id="vllm-kernels-missing",
        pattern=(
            r"vllm/\w{1,40}\.abi3\.so: undefined symbol: _Z(?!N?K?(?:2at|3c10|5torch))\w"
            r"|No module named 'vllm\._C'|'_OpNamespace' '_C\w{0,20}' object has no attribute"
        ),
        cause="vLLM's compiled kernels are missing or older than its Python code.",
        fix="Use a released image, or rebuild vLLM from an empty build folder for sm_121.",
        source="vllm-project/vllm#23925; vllm-project/vllm#13608",
        sample=(
            "ImportError: /x/vllm/_C.abi3.so: undefined symbol: "
            "_Z24silu_and_mul_nvfp4_quantRN2at6TensorES1_S1_S1_"
        ),
        near_miss="ImportError: /x/other.so: undefined symbol: _Z24foo",
    ),
    Signature(
        id="nccl-library-too-old",
        pattern=r"libtorch_cuda\.so: undefined symbol: (?P<symbol>nccl\w{1,60})",
        cause="An older NCCL than PyTorch needs is loaded: {symbol} is missing.",
        fix="Remove that NCCL from LD_PRELOAD and LD_LIBRARY_PATH, or use a newer one.",
        source="NVIDIA/nccl#1180; pytorch/pytorch#120186",
        sample="ImportError: /x/libtorch_cuda.so: undefined symbol: ncclCommWindowRegister",
        near_miss="NCCL version 2.28.9, symbol ncclCommWindowRegister",
    ),
    Signature(
        id="glibc-too-old",
        pattern=r"version `(?P<needed>GLIBC(?:XX)?_[\d.]{1,12})' not found",
        cause="A library was built for a newer system: {needed} is missing.",
        fix="Use an image that is built as a whole, instead of wheels from another system.",
        source="vllm-project/vllm#39609; vllm-project/vllm#6562",
        sample="ImportError: /lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found",
        near_miss="version `1.2.3' not found in the index",
    ),
    Signature(
        id="flashinfer-versions-differ",
        pattern=(
            r"flashinfer-(?P<part>cubin|jit-cache) "
            r"(?:version .{0,80} does not match|\([^)\n]{1,40}\) !=) flashinfer"
        ),
        cause="FlashInfer and its package flashinfer-{part} have different versions.",
        fix="Install both in the same version, or use an image that has both.",
        source="NVIDIA-NeMo/Export-Deploy PR#679",
        sample=(
            "RuntimeError: flashinfer-cubin version (0.5.2) does not match flashinfer version "
            "(0.5.3)."
        ),
        near_miss="flashinfer-cubin version 0.5.3",
    ),
    Signature(
        id="flashinfer-incomplete",
        pattern=(
            r"No such file or directory: '[^'\n]{0,200}/flashinfer/data/"
            r"|fatal error: (?:cutlass|cute|flashinfer)/[\w./]{1,80}: No such file or directory"
        ),
        cause=(
            "The FlashInfer of this image lacks its sources, so it cannot compile a kernel that "
            "is not prebuilt."
        ),
        fix=(
            "Use an image whose FlashInfer is complete, or another attention-backend or "
            "moe-backend in vllm_args."
        ),
        source="spark-arena/sparkrun#280; flashinfer-ai/flashinfer#2203",
        leads_to=("engine-start-failed",),
        sample=(
            "FileNotFoundError: [Errno 2] No such file or directory: "
            "'/usr/local/lib/python3.12/dist-packages/flashinfer/data/csrc/nv_internal/x'"
        ),
        near_miss="fatal error: cuda_runtime.h: No such file or directory",
    ),
    Signature(
        id="compiler-missing",
        pattern=(
            r"Failed to find C compiler|Could not find nvcc"
            r"|fatal error: (?:Python|cuda\w{0,30})\.h:"
            r"|\b(?:nvcc|ninja|gcc|g\+\+)\b'?: (?:command )?not found"
            r"|No such file or directory: '[^'\n]{0,120}\b(?:nvcc|ninja|gcc)'"
            r"|CUDA_HOME environment variable is not set"
        ),
        cause="The image lacks a compiler or headers for kernels that are compiled at the start.",
        fix="Use an image with the CUDA toolkit, gcc and Python's headers (a devel image).",
        source="vllm-project/vllm#2997; gcc's and PyTorch's own messages",
        sample="main.c:5:10: fatal error: Python.h: No such file or directory",
        near_miss="main.c:5:10: fatal error: foo.h: No such file or directory",
    ),
    Signature(
        id="libcuda-not-linked",
        pattern=r"cannot find -lcuda\b|libcuda\.so cannot found",
        cause="Triton links with libcuda.so, and the image's linker does not find it.",
        fix=(
            "Set LIBRARY_PATH: /usr/local/cuda/lib64/stubs in vllm_env, or use an image whose "
            "linker knows this folder."
        ),
        source="vllm-project/vllm#11643; vllm-project/vllm#12505; state-spaces/mamba#123",
        leads_to=("engine-start-failed",),
        sample="/usr/bin/ld: cannot find -lcuda: No such file or directory",
        near_miss="gcc driver.c -O3 -shared -fPIC -o cuda_utils.so -lcuda",
    ),
    Signature(
        id="wheel-platform",
        pattern=(
            r"is not a supported wheel on this platform|no wheels with a matching"
            r"|have a source distribution or wheel for the current platform"
        ),
        cause="No wheel fits this Python, glibc or architecture (aarch64).",
        fix="Use the image that the recipe names, or an index with aarch64 wheels (cu130).",
        source="eugr/spark-vllm-docker#21; pip's own message",
        sample="ERROR: vllm-0.10-cp38-abi3-manylinux1_x86_64.whl is not a supported wheel on this "
        "platform.",
        near_miss="Found 2 wheels with a matching tag",
    ),
    Signature(
        id="package-build-failed",
        pattern=(
            r"(?:Failed (?:to build|building wheel for) `?|Could not build wheels for "
            r"|[Ff]ailed to build installable wheels for .{0,60} \()"
            r"(?P<name>(?!installable\b)[A-Za-z][\w.=+-]{0,80})"
        ),
        cause="{name} has no wheel for this Python and architecture, and building it here failed.",
        fix=(
            "Use an image that contains it, or a release with a wheel for aarch64. To build it, "
            "the compiler, Python's headers and the CUDA toolkit of this image's PyTorch must be "
            "installed."
        ),
        source="vllm-project/vllm#44407; Dao-AILab/flash-attention#1593",
        role=FailureRole.SYMPTOM,
        sample="error: Failed to build `fastsafetensors==0.3.2`",
        near_miss="Successfully built fastsafetensors",
    ),
    Signature(
        id="driver-too-old",
        pattern=(
            r"driver version is insufficient for CUDA runtime version|InsufficientDriver"
            r"|unsatisfied condition: cuda ?>=|NVIDIA driver on your system is too old"
            r"|compiled with an unsupported toolchain"
            r"|forward compatibility was attempted on non supported HW"
            r"|built for NVIDIA Driver Release [\d.]+ or later"
        ),
        cause="The host's NVIDIA driver is too old for the CUDA of this image.",
        fix=(
            "Update the driver on that host and reboot (580 serves CUDA 13.0), or use an image "
            "with an older CUDA; `nvidia-smi` shows the highest CUDA of a driver."
        ),
        source="onnxruntime/mobius#316; nagadomi/nunif#702; NVIDIA/nvidia-docker#400",
        sample="CUDA error: CUDA driver version is insufficient for CUDA runtime version",
        near_miss="CUDA driver version 13.0, CUDA runtime version 13.0",
    ),
    Signature(
        id="bus-error",
        pattern=r"(?<!PCIe )\b[Bb]us error\b|SIGBUS",
        cause="A shared or mapped file had no memory behind it: /dev/shm is too small.",
        fix="Start the container with `--ipc=host` or a larger `--shm-size`; free the disk.",
        source="vllm-project/vllm#1091; PyTorch's own message",
        role=FailureRole.SYMPTOM,
        sample="ERROR: Unexpected bus error encountered in worker. Bus error (core dumped)",
        near_miss="PCIe Bus Error: severity=Corrected",
    ),
    Signature(
        id="torch-capability-range",
        pattern=r"GB10 which is of (?:cuda|compute) capability (?:\(CC\) )?12\.1",
        cause=(
            "PyTorch's list of GPUs ends at 12.0 or omits 12.1; kernels for 12.0 also run on a "
            "GB10: harmless where torch is built for CUDA 13."
        ),
        fix="Ignore it; if kernels fail, use an image with PyTorch 2.11 or later for CUDA 13.",
        source="pytorch/pytorch PR#166185",
        role=FailureRole.WARNING,
        sample="UserWarning: Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.",
        near_miss="Found GPU0 NVIDIA GB10 with CUDA capability sm_121",
    ),
)

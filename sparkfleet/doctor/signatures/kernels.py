"""Failures of GPU kernels: their architecture, shared memory, graphs and quantized weights."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="moe-backend-unfit",
        pattern=(
            r"No \w{2,12} MoE backend supports the deployment configuration"
            r"|MoE backend '[^'\n]{1,60}' does not support the deployment configuration"
            r"|moe_backend='[^'\n]{1,60}' (?:is not supported for|does not support|does not apply)"
        ),
        cause=(
            "vLLM has no kernel for the experts of this model that fits this GPU and these "
            "options, or the one that was asked for does not fit."
        ),
        fix=(
            "Remove moe-backend from vllm_args, so that vLLM selects one; otherwise use an image "
            "with a newer vLLM and FlashInfer, or other weights of the model."
        ),
        source="vllm-project/vllm#45661; vllm-project/vllm#35065; flashinfer-ai/flashinfer#3732",
        leads_to=("engine-start-failed",),
        sample="NotImplementedError: No NvFp4 MoE backend supports the deployment configuration.",
        near_miss="Using 'MARLIN' NvFp4 MoE backend out of potential backends: ['MARLIN']",
    ),
    Signature(
        id="bfloat16-unsupported",
        pattern=(
            r"Bfloat16 is only supported on GPUs with compute capability of at least 8"
            r"(?:\.0\. Your (?P<gpu>.{1,80}?) GPU (?:has|does not have)\b)?"
        ),
        cause=(
            "The model asks for bfloat16, and the GPU of this host ({gpu}) cannot compute in it. "
            "It is not the GPU of a Spark: a GB10 can."
        ),
        fix="Set dtype: half in vllm_args for this host, or serve the model on Sparks only.",
        source="vllm-project/vllm#1157; vllm-project/vllm#946; substratusai/vllm-docker#37",
        leads_to=("engine-start-failed", "config-invalid"),
        sample=(
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least "
            "8.0. Your Tesla T4 GPU has compute capability 7.5."
        ),
        near_miss="Casting torch.bfloat16 to torch.float16.",
    ),
    Signature(
        id="quantization-above-gpu",
        pattern=(
            r"[Qq]uantization (?:method \S{1,60}|scheme) is not supported for (?:', ')?the current "
            r"GPU\. Min(?:imum)? capability: (?P<need>\d{1,4})\.(?: ', ')? ?"
            r"Current capability: (?P<have>\d{1,4})"
        ),
        cause=(
            "This quantization needs a GPU of capability {need}, and that of this host has {have} "
            "(121 is a GB10)."
        ),
        fix="Use another quantization of the model on this host, or serve it on Sparks only.",
        source="vllm-project/vllm#4202; vllm-project/vllm#14040",
        leads_to=("engine-start-failed", "options-refused", "model-not-built"),
        sample=(
            "ValueError: The quantization method awq is not supported for the current GPU. Minimum "
            "capability: 75. Current capability: 70."
        ),
        near_miss="The quantization method awq is supported",
    ),
    Signature(
        id="triton-shared-memory",
        pattern=(
            r"out of resource: shared memory, ?Required: (?P<need>\d{1,9}),? ?"
            r"Hardware limit: (?P<most>\d{1,9})"
        ),
        cause=(
            "A Triton kernel wants {need} bytes of shared memory for a block; this GPU has {most}. "
            "The kernel was tuned for another GPU."
        ),
        fix=(
            "Set another attention-backend or moe-backend in vllm_args, or use an image whose "
            "kernels know this GPU."
        ),
        source="vllm-project/vllm#36802; triton-lang/triton#8182",
        sample=(
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, "
            "Required: 81920, Hardware limit: 65536. Reducing block sizes or "
            "`num_stages` may help."
        ),
        near_miss="Allocated shared memory, Required: 65538, Hardware limit: 101376",
    ),
    Signature(
        id="flashinfer-architecture",
        pattern=(
            r"FlashInfer requires (?:GPUs with )?sm75(?:\+| or higher)"
            r"|major, minor = arch\.split\(\"\.\"\)\n(?:[ ~^]{1,200}\n)?ValueError: "
        ),
        cause=(
            "FlashInfer found no architecture to compile for: the CUDA toolkit in the image is "
            "older than this GPU, or TORCH_CUDA_ARCH_LIST names only older ones."
        ),
        fix=(
            "Use an image with CUDA 13, and remove TORCH_CUDA_ARCH_LIST and "
            "FLASHINFER_CUDA_ARCH_LIST from vllm_env."
        ),
        source="vllm-project/vllm#50705; flashinfer-ai/flashinfer#371",
        sample="RuntimeError: FlashInfer requires GPUs with sm75 or higher",
        near_miss="FlashInfer supports sm75 and higher",
    ),
    Signature(
        id="ptx-feature-missing",
        pattern=(
            r"(?:Instruction|Feature|Modifier) "
            r"'(?P<what>[^'\n]{1,80})' (?:not supported on|requires) \.target "
            r"'?(?P<arch>sm_\w{2,5})"
        ),
        cause=(
            "A kernel was compiled for an architecture without {what} ({arch}). Only those with a "
            "letter, such as sm_121a, have the instructions for FP4."
        ),
        fix=(
            "Compile with CUDA 13 for 12.1a (TORCH_CUDA_ARCH_LIST), or use an image that was built "
            "for the GB10."
        ),
        source="flashinfer-ai/flashinfer#1966; antirez/ds4#672",
        sample=(
            "ptxas /tmp/a.ptx, line 15870; error   : Instruction 'cvt with .e2m1x2' not "
            "supported on .target 'sm_120'"
        ),
        near_miss="ptxas info    : Compiling entry function 'quantize' for 'sm_120'",
    ),
    Signature(
        id="cublas-mismatch",
        pattern=r"CUBLAS_STATUS_(?P<status>INVALID_VALUE|NOT_SUPPORTED|ARCH_MISMATCH)",
        cause=(
            "cuBLAS refused a call of PyTorch ({status}). Often it is another cuBLAS than "
            "PyTorch's own, found through LD_LIBRARY_PATH."
        ),
        fix="Remove LD_LIBRARY_PATH from vllm_env, or use a released image.",
        source="vllm-project/vllm#35608; ace-step/ACE-Step-1.5#540",
        sample=(
            "RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasGemmEx`"
        ),
        near_miss="CUBLAS_STATUS_SUCCESS",
    ),
    Signature(
        id="gemm-library-failed",
        pattern=(
            r"(?P<what>bmm_fp8_internal_cublaslt failed|Plan index \d{1,4} is invalid"
            r"|CUDNN_STATUS_(?!SUCCESS|NOT_INIT|ALLOC)\w{3,60}"
            r"|No execution plans (?:built|support)\b)"
        ),
        cause=(
            "cuBLASLt or cuDNN, which FlashInfer uses for quantized layers, has no working kernel "
            "for this shape on this GPU: {what}."
        ),
        fix=(
            "Set linear-backend in vllm_args to cutlass or marlin, so that FlashInfer does not "
            "choose, or kv-cache-dtype: auto where the message came with fp8; newer FlashInfer and "
            "cuDNN have fewer of these failures."
        ),
        source=(
            "flashinfer-ai/flashinfer#3566; NVIDIA/dgx-spark-playbooks#107; vllm-project/vllm#30324"
        ),
        leads_to=("engine-start-failed", "kernel-failed"),
        sample="RuntimeError: Plan index 13 is invalid",
        near_miss="CUDNN_STATUS_SUCCESS",
    ),
    Signature(
        id="cublas-no-memory",
        pattern=r"CUBLAS_STATUS_(?:NOT_INITIALIZED|ALLOC_FAILED)",
        cause="cuBLAS could not start: no memory is left for it, or CUDA failed before.",
        fix=(
            "If this log has an earlier CUDA error, that is the reason. Otherwise lower "
            "gpu-memory-utilization, and stop what else uses the memory of that host."
        ),
        source="QwenLM/Qwen#120; karpathy/llama2.c#279",
        role=FailureRole.SYMPTOM,
        sample=(
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate`"
        ),
        near_miss="CUBLAS_STATUS_SUCCESS",
    ),
    Signature(
        id="torch-compile-failed",
        pattern=(
            r"BackendCompilerFailed: backend='(?P<backend>\w{1,40})' raised:\s{1,3}"
            r"(?P<reason>\S.{0,300})"
        ),
        cause="torch.compile failed in {backend}: {reason}.",
        fix=(
            "Remove ~/.cache/vllm/torch_compile_cache on that host. If it fails again, "
            "`enforce-eager: true` in vllm_args starts without compilation; a newer image may not "
            "have the error."
        ),
        source="vllm-project/vllm#11450; pytorch/pytorch#119054",
        role=FailureRole.SYMPTOM,
        sample=(
            "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' "
            "raised:\nTypeError: 'int' object is not iterable"
        ),
        near_miss="Using backend='inductor'",
    ),
    Signature(
        id="torch-compile-refused",
        pattern=(
            r"torch\._(?:dynamo|inductor)\.exc\.(?!BackendCompilerFailed)\w{1,60}: "
            r"(?P<reason>\S.{0,300})|Not all values of RelaxedUnspecConstraint\("
        ),
        cause="torch.compile cannot compile the model: {reason}.",
        fix=(
            "Use an image whose PyTorch is the one that its vLLM was released with, and remove "
            "~/.cache/vllm/torch_compile_cache on that host. `enforce-eager: true` in vllm_args "
            "starts without compilation."
        ),
        source="BoltzmannEntropy/vLLM-5090#1; vllm-project/vllm-ascend#1368",
        role=FailureRole.SYMPTOM,
        fallback=True,
        leads_to=("engine-start-failed", "torch-compile-failed", "mp-worker-died"),
        sample="torch._dynamo.exc.Unsupported: non-function or method super: <built-in function x>",
        near_miss="torch._dynamo hit config.recompile_limit (8)",
    ),
    Signature(
        id="graph-pass-failed",
        pattern=r"(?:auto_functionalized|triton_kernel_wrapper_functional)\w{0,8} was not removed",
        cause="Inductor could not rewrite a custom operation of the model (often one for FP8).",
        fix=(
            "Use an image whose vLLM supports this model on the GB10, and remove "
            "~/.cache/vllm/torch_compile_cache on that host. `enforce-eager: true` in vllm_args "
            "starts without compilation."
        ),
        source="vllm-project/vllm#40778; vllm-project/vllm#42949; vllm-project/vllm#42417",
        leads_to=("engine-start-failed", "torch-compile-failed", "mp-worker-died"),
        sample="AssertionError: auto_functionalized was not removed",
        near_miss="auto_functionalized_v2 was removed",
    ),
    Signature(
        id="graph-capture-failed",
        pattern=(
            r"operation not permitted when stream is capturing|cudaErrorStreamCapture\w{3,30}"
            r"|operation failed due to a previous error during capture"
        ),
        cause="A step of this model or backend cannot be part of a CUDA graph.",
        fix=(
            "Start with `enforce-eager: true` in vllm_args; it is slower. Another "
            "attention-backend or image may support graphs."
        ),
        source="noonghunna/club-3090#106; SystemPanic/vllm-windows#5",
        sample="RuntimeError: CUDA error: operation not permitted when stream is capturing",
        near_miss="Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%",
    ),
    Signature(
        id="head-size-unsupported",
        pattern=(
            r"(?i)unsupported head[ _](?:dim|size):? \d{1,5}"
            r"|head[ _]size \(?\d{1,5}\)? is not supported"
        ),
        cause="The attention backend has no kernel for the size of this model's heads.",
        fix=(
            "Set attention-backend in vllm_args to TRITON_ATTN, or to FLEX_ATTENTION, which takes "
            "every size."
        ),
        source="vllm-project/vllm#22193; sgl-project/sglang#24714",
        sample="RuntimeError: Unsupported head size: 32",
        near_miss="Using head size 128",
    ),
    Signature(
        id="quantization-shard",
        pattern=(
            r"is not divisible by weight quantization block_[nk] = \d"
            r"|size_k must (?:be )?divisible by BLOCK_SIZE_K"
            r"|(?:input|output) size is not aligned with the quantized weight shape"
        ),
        cause=(
            "The part of a quantized weight that one rank gets does not hold whole blocks of the "
            "quantization: --tp is too large for this checkpoint."
        ),
        fix=(
            "Use a smaller `--tp`, with `--pp` for the other hosts; for a mixture of experts set "
            "enable-expert-parallel: true in vllm_args. Or take another quantization of the model."
        ),
        source="vllm-project/vllm#45784; vllm-project/vllm#11671",
        sample=(
            "ValueError: Weight input_size_per_partition = 192 is not divisible by "
            "weight quantization block_k = 128."
        ),
        near_miss="hidden size is divisible by weight quantization block_n = 128",
    ),
    Signature(
        id="bitsandbytes-unsupported",
        pattern=r"Model (?P<class>\w{1,80}) does not support BitsAndBytes quantization yet",
        cause="This vLLM cannot load {class} with bitsandbytes.",
        fix="Use a newer image, or another quantization of the model (NVFP4, FP8, AWQ).",
        source="vllm-project/vllm#9967; vllm-project/vllm#7624",
        sample=(
            "AttributeError: Model LlavaForConditionalGeneration does not support "
            "BitsAndBytes quantization yet."
        ),
        near_miss="bitsandbytes quantization is not fully optimized yet.",
    ),
    Signature(
        id="kernel-not-for-this-gpu",
        pattern=(
            r"No compiled \w{1,60} for CUDA device capability"
            r"|(?:is|are) not supported on (?:this|the current) (?:device|GPU|architecture)\b"
            r"|does not support (?:the )?(?:current|this) (?:device|GPU)\b"
            r"|\.hpp:\d{1,6}\): Unsupported architecture|RuntimeError: Unsupported architecture$"
            r"|\.hpp:\d{1,6}\): Unknown SF transformation"
            r"|Failed to find a kernel that can implement the \w{1,40} linear layer"
            r"|Expected a\.dtype\(\) == torch::kInt8 to be true"
            r"|(?:KeyError: |Worker failed with error ')'float8_\w{1,20}'"
            r"|cutlass_gemm_caller, \S{1,200}, Error Internal"
            r"|[Uu]nsupported (?:compute capability|GPU arch\w{0,10}|CUDA arch\w{0,10}|SM version)"
            r"|only (?:supported|supports|available) (?:on )?"
            r"(?:SM|sm_?|Hopper\b|compute capability )\d{0,3}"
        ),
        cause="The engine chose a kernel that this build does not have for the GB10 (sm_121).",
        fix=(
            "Set another attention-backend, moe-backend or linear-backend in vllm_args (marlin and "
            "triton work on most GPUs; for FP8 weights with marlin, VLLM_TEST_FORCE_FP8_MARLIN: 1 "
            "in vllm_env as well), or use an image that was built for sm_121."
        ),
        source="vllm-project/vllm#46726; vllm-project/vllm#32109",
        sample="RuntimeError: Assertion error (/x/attention.hpp:219): Unsupported architecture",
        near_miss="MXFP4 grouped gemm is supported on this device",
    ),
    Signature(
        id="cuda-failed",
        pattern=(
            r"CUDA (?:runtime )?[Ee]rror: (?P<what>unspecified launch failure|misaligned address"
            r"|cudaError(?!MemoryAllocation|StreamCapture|IllegalAddress)\w{1,60}"
            r"|invalid argument|invalid device function|invalid resource handle"
            r"|the launch timed out and was terminated|hardware stack error"
            r"|uncorrectable \w{2,10} error encountered)"
        ),
        cause="A CUDA call failed: {what}. Later errors of this process follow from it.",
        fix=(
            "`sudo dmesg | grep Xid` on that host shows a fault of the GPU, after which a reboot "
            "helps. Otherwise set another attention-backend or moe-backend in vllm_args."
        ),
        source="vllm-project/vllm#27430; verl-project/verl#3579",
        role=FailureRole.SYMPTOM,
        sample="RuntimeError: CUDA error: unspecified launch failure",
        near_miss="CUDA error: an illegal memory access was encountered",
    ),
    Signature(
        id="kernel-assertion",
        pattern=(
            r"RuntimeError: (?:Failed: )?Assertion error \(?[^()\s]{1,300}:\d{1,6}(?:\):)? "
            r"(?P<what>.{1,300})"
        ),
        cause="A kernel library (DeepGEMM, FlashMLA) stopped: {what}.",
        fix=(
            "Set another attention-backend or moe-backend in vllm_args, or VLLM_USE_DEEP_GEMM: 0 "
            "in vllm_env; or use an image that was tested with this model on the GB10."
        ),
        source="vllm-project/vllm#50660; llm-d/llm-d#1269; deepseek-ai/DeepGEMM#140",
        role=FailureRole.SYMPTOM,
        fallback=True,
        leads_to=("engine-start-failed",),
        sample=(
            "RuntimeError: Assertion error (/x/csrc/sm90/prefill/sparse/phase1.cuh:614): Assertion "
            "`res == CUresult::CUDA_SUCCESS` failed."
        ),
        near_miss="AssertionError: Assertion error in the test",
    ),
    Signature(
        id="cublas-failed",
        pattern=r"CUBLAS_STATUS_(?P<status>INTERNAL_ERROR|EXECUTION_FAILED|MAPPING_ERROR)",
        cause=(
            "A call of cuBLAS failed inside ({status}): an earlier kernel failed, no memory was "
            "left for it, or the GPU has a fault."
        ),
        fix=(
            "If this log has an earlier CUDA error, that is the reason. Otherwise start again; if "
            "it returns, lower gpu-memory-utilization, and look for Xid in `sudo dmesg`."
        ),
        source="vllm-project/vllm#5731; NVIDIA/TensorRT-LLM#5390; vllm-project/vllm#18335",
        role=FailureRole.SYMPTOM,
        sample=(
            "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx("
        ),
        near_miss="CUBLAS_STATUS_SUCCESS",
    ),
)

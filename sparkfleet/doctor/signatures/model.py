"""Failures of a model, its quantization, its image and its options."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="C22",
        pattern=(
            r"model type `[^`]+` but Transformers does not recognize"
            r"|Model architectures \[[^\]]*\] are not supported for now"
            r"|does not recognize model type|model type .* not recognized"
        ),
        cause="The image is older than the model's architecture.",
        fix="Use a newer image in the recipe; `vllm --version` inside it tells what it has.",
        source="case C22; facts/dgx-spark.md failure 71; seed 5 section 11",
    ),
    Signature(
        id="V-tokenizer",
        pattern=(
            r"Can't load tokenizer for '(?P<model>[^']+)'"
            r"|No tokenizer file found in directory: (?P<folder>\S+)"
        ),
        cause="The folder of the model has no tokenizer that vLLM can load.",
        fix="Run `weights.verify`; if the model comes without one, set vllm_args: tokenizer.",
        source="vllm-project/vllm#31444; transformers/tokenization_utils_base.py",
    ),
    Signature(
        id="F71",
        pattern=r"AmbiguousGlobalPerLayerAttributeError",
        cause="transformers 5.15 does not go with this vLLM for Gemma 4.",
        fix="Add transformers==5.8.1 to the recipe's engine_pip, or use the model's own image.",
        source="facts/dgx-spark.md failure 71",
        recorded=False,
    ),
    Signature(
        id="F69",
        pattern=(
            r"Total number of attention heads \((?P<heads>\d+)\) must be divisible by "
            r"tensor parallel size \((?P<tp>\d+)\)"
        ),
        cause="{heads} attention heads cannot be divided over {tp} ranks.",
        fix="Take another --tp, or `--pp {tp}` instead.",
        source="facts/dgx-spark.md failure 69",
    ),
    Signature(
        id="F70",
        pattern=r"not divisible by\s+min_thread_[nk] = ",
        cause="At this TP a shard of the model is too small for the Marlin kernel.",
        fix="Take a smaller --tp, or another backend in vllm_args.",
        source="facts/dgx-spark.md failure 70",
    ),
    Signature(
        id="F73",
        pattern=r"using InstantTensor loader",
        cause="The InstantTensor loader can let a worker die silently with several hosts.",
        fix="Set load-format: safetensors in vllm_args.",
        source="facts/dgx-spark.md failure 73",
        role=FailureRole.WARNING,
    ),
    Signature(
        id="S5-quantization",
        pattern=r"[Uu]nknown quantization",
        cause="The quantization option does not fit the checkpoint.",
        fix="ModelOpt checkpoints take quantization: modelopt; compressed-tensors take none.",
        source="seed 5 section 11",
    ),
    Signature(
        id="S4-scale",
        pattern=r"KeyError: '(?P<key>[^']*weight_scale[^']*)'",
        cause="The checkpoint is quantized already, and this vLLM cannot map its scales.",
        fix="Serve the BF16 model with quantization: fp8, or stage its gemma4_patched.py.",
        source="seed 4 workaround 2; seed 2; vLLM issue 38912",
    ),
    Signature(
        id="S3-tie",
        pattern=r"tie_weights(?:.*\n){0,8}?.*NotImplementedError|NotImplementedError.*tie_weights",
        cause="This vLLM cannot tie ModelOpt weights (0.23.1rc1; 0.20.2rc1 could).",
        fix="Pin the image that the recipe was tested with.",
        source="seed 3, the upgrade trap; vLLM issue 45543",
    ),
    Signature(
        id="S4-pickle",
        pattern=r"PicklingError: Can't pickle|AOTAutogradCache.*[Pp]ickl",
        cause="torch.compile could not save its cache.",
        fix="Set VLLM_DISABLE_COMPILE_CACHE: 1 in vllm_env; compiling stays on.",
        source="seed 4 workaround 3",
    ),
    Signature(
        id="S2-cutlass",
        pattern=r"\[FP4 gemm Runner\] Failed to run cutlass FP4 gemm",
        cause="The image has no FP4 kernel for the GB10 (sm_121).",
        fix="Use the image's cu130 tag, and moe-backend: marlin in vllm_args.",
        source="seed 2",
    ),
    Signature(
        id="S2-moe",
        pattern=r"Using '?CUTLASS_FP4",
        cause="The MoE layers run the CUTLASS FP4 kernel, which answers garbage on a GB10.",
        fix="Set moe-backend: marlin in vllm_args; the log must say MARLIN.",
        source="seed 2",
        role=FailureRole.WARNING,
        recorded=False,
    ),
    Signature(
        id="S1-illegal",
        pattern=r"IllegalInstruction|[Uu]nsupported PTX",
        cause="The FP4 kernel uses instructions that the GB10 (sm_121) lacks.",
        fix="Set moe-backend: marlin in vllm_args, or use an image built for sm_121.",
        source="seeds 1 section 7 and 3",
        recorded=False,
    ),
    Signature(
        id="S5-sm121",
        pattern=r"(?i)\bsm_?121\b.*\bnot\b.*\b(?:support|compatib)",
        cause="The image was not built for the GB10 (sm_121).",
        fix="Use the image's cu130 tag or NVIDIA's NGC image.",
        source="seed 5 section 11",
        recorded=False,
    ),
    Signature(
        id="S1-symbol",
        pattern=r"_ZN3c1013MessageLoggerC1ENS_14SourceLocationEib|undefined symbol: _ZN3c10",
        cause="vLLM in this image was built against another PyTorch (cu132 and cu131).",
        fix="Use a released image, or rebuild its wheels from scratch.",
        source="seed 1 section 3",
    ),
    Signature(
        id="S1-parser",
        pattern=r"Gemma4ToolParser\.__init__\(\)",
        cause="The gemma4 tool parser of this image is broken (vLLM issue 38837).",
        fix="Set tool-call-parser: pythonic in vllm_args.",
        source="seed 1 section 8",
    ),
    Signature(
        id="S1-fastsafetensors",
        pattern=r"No module named 'fastsafetensors'",
        cause="The image has no fastsafetensors.",
        fix="Set load-format: safetensors in vllm_args.",
        source="seed 1 section 8",
    ),
    Signature(
        id="S5-scipy",
        pattern=r"No module named 'scipy'|ImportError: .*\bscipy\b",
        cause="The model's processor imports scipy, and the image has none.",
        fix="Add scipy to the recipe's engine_pip.",
        source="seed 5 section 7.4.4",
    ),
    Signature(
        id="S5-remote-code",
        pattern=r"contains custom code which must be executed",
        cause="The model brings its own Python code, which nobody has allowed.",
        fix="Read that code, then set trust-remote-code: true in vllm_args.",
        source="seed 5 sections 7.2.2 and 7.4.4",
    ),
    Signature(
        id="F50",
        pattern=r"Driver Version: 590\.",
        cause="Driver 590 deadlocks with CUDA graphs.",
        fix="Install driver 580.",
        source="facts/dgx-spark.md failure 50",
        role=FailureRole.WARNING,
    ),
)

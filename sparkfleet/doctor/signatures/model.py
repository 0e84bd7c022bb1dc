"""Failures of a model, its quantization, its image and its options."""

from __future__ import annotations

import re

from sparkfleet.doctor.signatures.row import Clues, FailureRole, Signature, has_match_between

_INSPECTION_FAILED = "Error in inspecting model architecture"
_TRACEBACK = 20_000  # characters


def _is_of_new_model(match: re.Match[str], _clues: Clues) -> bool:
    """Return False where vLLM knows the architecture, and could not import its own code for it."""
    begin = max(0, match.start() - _TRACEBACK)
    return not has_match_between(_INSPECTION_FAILED, match.string, begin, match.start())


ROWS = (
    Signature(
        id="model-type-unknown",
        pattern=(
            r"model type `[^`\n]+` but Transformers does not recognize"
            r"|Model architectures \[[^\]\n]*\] are not supported for now"
            r"|does not recognize model type|model type .{0,300} not recognized"
        ),
        cause="The image is older than the model's architecture.",
        fix="Use a newer image in the recipe; check it with `vllm --version` inside.",
        source="NVIDIA/dgx-spark-playbooks#75; 0xBakeer/inference-atlas PR#14",
        holds=_is_of_new_model,
        near_miss=(
            "Error in inspecting model architecture 'LlamaForCausalLM'\n"
            "ValueError: Model architectures ['LlamaForCausalLM'] are not supported for now."
        ),
    ),
    Signature(
        id="length-above-model",
        pattern=(
            r"User-specified max_model_len \((?P<asked>\d{1,12})\) is greater than the derived "
            r"max_model_len \((?:\w{1,60}=(?P<most>\d{1,12}))(?!.{0,300}json\)\. VLLM_ALLOW)"
        ),
        cause="max-model-len is {asked}; the model was made for {most} positions.",
        fix="Lower max-model-len in vllm_args, or set the rope scaling of the model's card there.",
        source="vllm-project/vllm PR#7080; vllm-project/vllm PR#20904",
        leads_to=("vllm-usage-error",),
        sample=(
            "User-specified max_model_len (65536) is greater than the derived max_model_len "
            "(max_position_embeddings=32768 or model_max_length=None in model's config.json)."
        ),
        near_miss=(
            "User-specified max_model_len (65536) is greater than the derived max_model_len "
            "(max_position_embeddings=32768 or model_max_length=None in model's config.json). "
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with extreme caution."
        ),
    ),
    Signature(
        id="pp-layer-of-another-rank",
        pattern=(
            r"KeyError: '(?P<layer>[\w.]{0,120}\blayers\.\d{1,4}\.[\w.]{0,60}"
            r"(?:attn|mixer|mamba|ssm|conv))'"
        ),
        cause="This vLLM cannot divide this model by --pp: a rank is asked for {layer} of another.",
        fix="Use `--tp` instead, the mp executor, or an image with a newer vLLM.",
        source=(
            "eugr/spark-vllm-docker#233; vllm-project/vllm#36640; vllm-project/vllm#40649; "
            "vllm-project/vllm#41287"
        ),
        sample="KeyError: 'language_model.model.layers.40.linear_attn'",
        near_miss="KeyError: 'layers.0.mlp.down_proj.weight'",
    ),
    Signature(
        id="pp-unsupported",
        pattern=(
            r"[Pp]ipeline parallelism is (?:not supported for this model"
            r"|only supported for the following +architectures)"
        ),
        cause="This vLLM cannot divide this model by --pp.",
        fix="Use `--tp` instead, or an image with a newer vLLM.",
        source="vllm-project/vllm#16231; vllm-project/vllm#9015; vllm-project/vllm#33685",
        sample="NotImplementedError: Pipeline parallelism is not supported for this model.",
        near_miss="Pipeline parallelism is supported for this model.",
    ),
    Signature(
        id="harmony-vocabulary",
        pattern=(
            r"error downloading or loading vocab file|Failed to load Harmony encoding"
            r"|openaipublic\.blob\.core\.windows\.net"
        ),
        cause=(
            "gpt-oss needs OpenAI's vocabulary file, which is downloaded at the end of the start, "
            "and this host could not get it."
        ),
        fix=(
            "Put o200k_base.tiktoken and cl100k_base.tiktoken into a folder on every host that the "
            "container sees, and set TIKTOKEN_ENCODINGS_BASE to it in vllm_env."
        ),
        source=(
            "NVIDIA/dgx-spark-playbooks#17; vllm-project/vllm#22525; openai/harmony#46; "
            "openai/harmony#95; sgl-project/sglang#18074"
        ),
        sample="openai_harmony.HarmonyError: error downloading or loading vocab file: failed",
        near_miss="Loading vocab file: vocab.json",
    ),
    Signature(
        id="transformers-gemma4",
        pattern=r"AmbiguousGlobalPerLayerAttributeError",
        cause="transformers 5.15 is not compatible with this vLLM for Gemma 4.",
        fix="Add transformers==5.8.1 to the recipe's engine_pip, or use the model's own image.",
        source="NVIDIA/dgx-spark-playbooks#75; 0xBakeer/inference-atlas PR#14",
        recorded=False,
        near_miss="GlobalPerLayerAttribute resolved",
    ),
    Signature(
        id="transformers-mismatch",
        pattern=(
            r"cannot import name '(?P<name>\w{1,80})' from '(?P<module>transformers[\w.]{0,120})'"
        ),
        cause=(
            "The transformers of this image does not match its vLLM or the model's own code: "
            "{module} has no {name}."
        ),
        fix=(
            "Use an image that was tested with the model, or pin transformers in engine_pip to the "
            "version that the model's config.json names (transformers_version)."
        ),
        source="baaivision/Emu3.5#57; OpenGVLab/InternVL#912",
        sample="ImportError: cannot import name 'X' from 'transformers.utils.import_utils' (/x.py)",
        near_miss="ImportError: cannot import name 'X' from 'module' (/x.py)",
    ),
    Signature(
        id="package-of-another-release",
        pattern=(
            r"(?:No module named '|cannot import name '(?P<part>\w{1,80})' from ')"
            r"(?P<name>(?:vllm(?!\._C)|torch|flashinfer|triton"
            r"|(?<=named ')[A-Za-z]\w{0,40}(?<!vllm))\.[\w.]{1,120})'"
        ),
        cause=(
            "{name}, or a part of it, is not in the installed package: two packages are of "
            "different releases."
        ),
        fix=(
            "Use a released image, or install vllm, torch and what uses them together from one "
            "index; an add-on must be of the release of its vLLM."
        ),
        source="baidu/vLLM-Kunlun#386; vllm-project/vllm#19131",
        sample="ModuleNotFoundError: No module named 'torch._inductor.custom_graph_pass'",
        near_miss="ModuleNotFoundError: No module named 'xformers'",
    ),
    Signature(
        id="tp-does-not-divide-heads",
        pattern=(
            r"Total number of attention heads \((?P<heads>\d+)\) must be divisible by "
            r"tensor parallel size \((?P<tp>\d+)\)"
        ),
        cause="{heads} attention heads cannot be divided over {tp} ranks.",
        fix="Use another --tp, or `--pp {tp}` instead.",
        source="vllm-project/vllm#414; eugr/spark-vllm-docker README",
        near_miss="Total number of attention heads (64) is divisible by tensor parallel size (2).",
    ),
    Signature(
        id="marlin-shard-too-small",
        pattern=r"not divisible by\s{1,8}(?:min_)?thread_[mnk] = ",
        cause="At this TP a shard of the model is too small for the Marlin kernel.",
        fix="Use a smaller --tp, or another backend in vllm_args.",
        source="vllm-project/vllm#9913; eugr/spark-vllm-docker recipes/4x",
        near_miss="Weight output_size_per_partition = 128 is divisible by min_thread_n",
    ),
    Signature(
        id="instanttensor-loader",
        pattern=r"using InstantTensor loader",
        cause="The InstantTensor loader can let a worker die silently with several hosts.",
        fix="Set load-format: safetensors in vllm_args.",
        source="eugr/spark-vllm-docker#377; tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark#6",
        role=FailureRole.WARNING,
        near_miss="Loading safetensors checkpoint shards:  20% Completed | 1/5",
    ),
    Signature(
        id="quantization-unknown",
        pattern=r"[Uu]nknown quantization",
        cause="The quantization option does not fit the checkpoint.",
        fix="Set quantization: modelopt for a ModelOpt checkpoint, none for compressed-tensors.",
        source="vLLM's own message",
        near_miss="Detected quantization method: modelopt",
    ),
    Signature(
        id="quantization-mismatch",
        pattern=(
            r"Quantization method specified in the model config \((?P<model>[^)\n]{1,40})\) "
            r"does not match the quantization method specified in the `quantization` argument "
            r"\((?P<asked>[^)\n]{1,40})\)"
        ),
        cause="The checkpoint is quantized as {model}, and quantization asks for {asked}.",
        fix="Remove quantization from vllm_args: vLLM reads the method from the checkpoint.",
        source="vllm-project/vllm#19050",
        sample=(
            "ValueError: Quantization method specified in the model config (fp8) does not match "
            "the quantization method specified in the `quantization` argument (gguf)."
        ),
        near_miss="Quantization method specified in the model config (fp8) is used.",
    ),
    Signature(
        id="weight-scale-unknown",
        pattern=r"KeyError: '(?P<key>[^'\n]{0,200}(?:weight|input|[kqv]|deq)_scale[^'\n]{0,40})'",
        cause="The checkpoint is already quantized, and this vLLM cannot map its scales.",
        fix="Serve the BF16 model with quantization: fp8, or stage its gemma4_patched.py.",
        source="vllm-project/vllm#38912; vllm-project/llm-compressor#959",
        near_miss="KeyError: 'layers.0.mlp.down_proj.weight'",
    ),
    Signature(
        id="tie-weights-unsupported",
        pattern=r"tie_weights(?:.{0,300}\n){0,8}?.{0,300}NotImplementedError|NotImplementedError.{0,300}tie_weights",
        cause="This vLLM cannot tie ModelOpt weights (0.23.1rc1; 0.20.2rc1 could).",
        fix="Pin the image that the recipe was tested with.",
        source="vllm-project/vllm#45543",
        near_miss="    return self.quant_method.tie_weights(self, e)\nINFO done",
    ),
    Signature(
        id="compile-cache-pickle",
        pattern=(
            r"PicklingError: Can't pickle|AOTAutogradCache.{0,300}[Pp]ickl"
            r"|Unexpected raw Node during pickling"
        ),
        cause="torch.compile could not save its cache.",
        fix="Set VLLM_DISABLE_COMPILE_CACHE: 1 in vllm_env; compiling stays on.",
        source="observed on a DGX Spark serving Gemma 4 31B FP8",
        near_miss=(
            "AOTAutograd cache unable to serialize compiled graph: Can't pickle <function launcher "
            "at 0x7f1c60cb2440>: attribute lookup launcher on __main__ failed"
        ),
    ),
    Signature(
        id="cutlass-fp4-failed",
        pattern=(
            r"\[FP4 gemm Runner\] Failed to (?:run|initialize) cutlass FP4 gemm"
            r"|Got cutlass error: Error Internal|RuntimeError: Failed to initialize GEMM"
        ),
        cause="The image has no FP4 kernel for the GB10 (sm_121).",
        fix="Use the image's cu130 tag, and moe-backend: marlin in vllm_args.",
        source="vllm-project/vllm#24377; observed on a DGX Spark serving Gemma 4 26B NVFP4",
        near_miss="[FP4 gemm Runner] selected cutlass FP4 gemm",
    ),
    Signature(
        id="cutlass-fp4-moe",
        pattern=r"Using '?(?:CUTLASS_FP4|(?:FLASHINFER|VLLM)_CUTLASS' NvFp4 MoE backend)",
        cause=(
            "The MoE layers use a CUTLASS FP4 kernel. That of some images gives wrong answers on "
            "a GB10, without an error."
        ),
        fix="Where answers are garbage, set moe-backend: marlin in vllm_args.",
        source=(
            "MiaAI-Lab/GLM-5.3-Flash-NVFP4-Dual-DGX-Spark#1; NVIDIA/cutlass#3096; observed on a "
            "DGX Spark serving Gemma 4 26B NVFP4; vllm-project/vllm#50925 has one that is right"
        ),
        role=FailureRole.WARNING,
        near_miss="Using 'MARLIN' NvFp4 MoE backend",
    ),
    Signature(
        id="hybrid-page-sizes",
        pattern=(
            r"assert new_spec\.page_size_bytes == max_page_size"
            r"|page size (?:of the layer )?is not divisible by the maximum page size"
            r"|cannot express this model's mixed page sizes"
            r"|[Ff]ailed to (?:promote local|convert the) KV cache specs to one unified type"
        ),
        cause=(
            "The model mixes attention with Mamba or linear attention, and this vLLM cannot bring "
            "the pages of their caches to one size."
        ),
        fix=(
            "Remove block-size, mamba-block-size, kv-cache-dtype and speculative-config from "
            "vllm_args, and add them again one by one; newer images pad the pages."
        ),
        source="eugr/spark-vllm-docker#296; vllm-project/vllm#43626; vllm-project/vllm PR#45207",
        leads_to=("engine-start-failed",),
        sample=(
            "    assert new_spec.page_size_bytes == max_page_size\n"
            "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
            "AssertionError"
        ),
        near_miss=(
            "Padding mamba page size by 0.08% to ensure that mamba page size and attention page "
            "size are exactly equal."
        ),
    ),
    Signature(
        id="illegal-instruction",
        pattern=r"IllegalInstruction|an illegal instruction was encountered|[Uu]nsupported PTX",
        cause="The FP4 kernel uses instructions that the GB10 (sm_121) lacks.",
        fix="Set moe-backend: marlin in vllm_args, or use an image built for sm_121.",
        source=(
            "vllm-project/vllm#18045; NVIDIA/TensorRT-LLM#11313; observed on a DGX Spark serving "
            "Gemma 4 31B NVFP4"
        ),
        near_miss="CUDA error: an illegal memory access was encountered",
    ),
    Signature(
        id="sm121-unsupported",
        pattern=(
            r"(?i)\bsm_?121\b.{0,40}\bnot\b.{0,40}\b(?:support|compatib)"
            r"|this kernel only supports sm120\b"
            r"|is for sm\d{2,3}-sm\d{2,3}, but was built for sm\d{2,3}"
            r"|tcgen05\b.{0,60}\bnot supported"
        ),
        cause="A kernel of this image was not built for the GB10 (sm_121).",
        fix="Use the image's cu130 tag or NVIDIA's NGC image.",
        source="PyTorch's own message; Dao-AILab/flash-attention PR#2257",
        near_miss="sm_121 is supported by this build",
    ),
    Signature(
        id="cuda-illegal-memory",
        pattern=r"an illegal memory access was encountered|CUDA_ERROR_ILLEGAL_ADDRESS",
        cause=(
            "A kernel reached outside its memory. The line that reports it is often that of a "
            "later kernel."
        ),
        fix=(
            "Try without speculative-config, with another attention-backend or moe-backend in "
            "vllm_args, then a newer image; CUDA_LAUNCH_BLOCKING: 1 in vllm_env names the kernel."
        ),
        source="vllm-project/vllm#13673; vllm-project/vllm#6976",
        role=FailureRole.SYMPTOM,
        leads_to=("gpu-unavailable",),
        sample="RuntimeError: CUDA error: an illegal memory access was encountered",
        near_miss="CUDA error: an illegal instruction was encountered",
    ),
    Signature(
        id="cuda-device-assert",
        pattern=(
            r"device-side assert triggered|Assertion `srcIndex < srcSelectDimSize` failed"
            r"|/native/cuda/IndexKernel\.cu.{0,120}Assertion `|Search for .cudaErrorAssert'"
        ),
        cause=(
            "A kernel met a value outside its table, such as a token or a position that the model "
            "does not have."
        ),
        fix=(
            "Compare max-model-len and the tokenizer with the model's config.json, try without "
            "speculative-config; CUDA_LAUNCH_BLOCKING: 1 in vllm_env names the kernel."
        ),
        source="vllm-project/vllm#11931; sgl-project/sglang#543",
        role=FailureRole.SYMPTOM,
        sample="RuntimeError: CUDA error: device-side assert triggered",
        near_miss="Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    ),
    Signature(
        id="cuda-device-missing",
        pattern=r"CUDA error: invalid device ordinal|CUDA_ERROR_INVALID_DEVICE\b",
        cause="A rank asks for a GPU that this host does not have; a Spark has one, number 0.",
        fix=(
            "Start one rank on each host (`{task:cluster.up} --tp N` does this, with Ray or with "
            "mp), and leave CUDA_VISIBLE_DEVICES unset in vllm_env and the image."
        ),
        source="vllm-project/vllm#16456; vllm-project/vllm#22677",
        sample="RuntimeError: CUDA error: invalid device ordinal",
        near_miss="CUDA error: invalid device function",
    ),
    Signature(
        id="gemma4-tool-parser",
        pattern=r"Gemma4ToolParser\.__init__\(\)",
        leads_to=("package-api-mismatch",),
        cause="The gemma4 tool parser of this image is broken (vLLM issue 38837).",
        fix="Set tool-call-parser: pythonic in vllm_args.",
        source="vllm-project/vllm#38837",
        near_miss="Gemma4ToolParser loaded",
    ),
    Signature(
        id="trust-remote-code",
        pattern=(
            r"contains custom code which must be executed"
            r"|requires you to execute (?:the configuration file in that repo|custom code)"
        ),
        cause="The model contains its own Python code, which is not allowed to run.",
        fix="Review that code, then set trust-remote-code: true in vllm_args.",
        source="InternLM/lagent#49; vllm-project/vllm#6215",
        near_miss="The repository contains code which was executed",
    ),
    Signature(
        id="driver-faulty",
        pattern=(
            r"(?:[Dd]river(?: [Vv]ersion)? {0,12}:[* ]{1,4}(?:NVIDIA )?|GB10, 12\.1, )"
            r"(?P<version>590|610)\."
        ),
        cause=(
            "Driver {version} has known faults on a GB10: 590 deadlocks with CUDA graphs, 610 "
            "takes about 4 GiB more of the memory, and CUDA may not start."
        ),
        fix="Install driver 580 (580.173.02 was found good).",
        source=(
            "eugr/spark-vllm-docker README 2026-03-12; "
            "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#114"
        ),
        role=FailureRole.WARNING,
        sample="NVIDIA GB10, 12.1, 610.43.02",
        near_miss="| NVIDIA-SMI 580.95.05   Driver Version: 580.95.05   CUDA Version: 13.0 |",
    ),
)

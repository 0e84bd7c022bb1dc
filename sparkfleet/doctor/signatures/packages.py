"""Python packages that do not go together: NumPy, transformers, FlashInfer and vLLM."""

from __future__ import annotations

import re

from sparkfleet.doctor.signatures.row import Clues, FailureRole, Signature, has_match_between

_INSPECTION_FAILED = "Error in inspecting model architecture"
_TRACEBACK = 20_000  # characters


def _is_inspected(match: re.Match[str], _clues: Clues) -> bool:
    """Return whether vLLM tried to import its code; older releases say it only before."""
    begin = max(0, match.start() - _TRACEBACK)
    return "inspected" in match[0] or has_match_between(
        _INSPECTION_FAILED, match.string, begin, match.start()
    )


ROWS = (
    Signature(
        id="numpy-too-new",
        pattern=(
            r"compiled using NumPy 1\.x cannot be run|numpy\.core\.multiarray failed to import"
            r"|Numba needs NumPy [\d.]{1,8} or (?:less|older)|numpy\.dtype size changed"
        ),
        cause="The NumPy of this image is newer than a package that uses it allows.",
        fix=(
            "Use a released image, or pin numpy in engine_pip to a version that this line allows "
            "(numpy<2 for packages that were compiled for NumPy 1)."
        ),
        source="chipmuenk/pyfda#253; numba/numba#10033",
        sample="ImportError: Numba needs NumPy 2.0 or less. Got NumPy 2.1.",
        near_miss="Numba uses NumPy 2.2",
    ),
    Signature(
        id="package-api-mismatch",
        pattern=(
            r"TypeError: (?P<call>[\w.]{1,120})\(\) got an unexpected keyword argument "
            r"'(?P<name>\w{1,80})'"
        ),
        cause=(
            "{call} has no argument {name}: two packages of this image are of different releases, "
            "or the model asks for what this vLLM does not have."
        ),
        fix=(
            "Use a released image without packages in engine_pip that replace its own; for a new "
            "model, the image that its card names."
        ),
        source="vllm-project/vllm#21822; vllm-project/vllm#20556",
        role=FailureRole.SYMPTOM,
        sample=(
            "TypeError: flash_attn_varlen_func() got an unexpected keyword argument 'num_splits'"
        ),
        near_miss="TypeError: forward() missing 1 required positional argument: 'x'",
    ),
    Signature(
        id="model-code-not-imported",
        pattern=(
            r"Model architectures \['?(?P<names>[^\]\n]{1,300}?)'?\] "
            r"(?:failed to be inspected|are not supported for now)"
        ),
        holds=_is_inspected,
        context=(
            r"\n(?P<raised>(?!RuntimeError: Error raised in subprocess)"
            r"[\w.]{1,80}(?:Error|Exception): (?![^\n]{0,400}"
            r"(?:returned non-zero exit status|validation error))[^\n]{1,300})"
        ),
        cause=(
            "vLLM could not import its own code for {names}; the last exception before: {raised}."
        ),
        fix=(
            "Packages of this image do not go together, or one is missing: use a released image "
            "without packages in engine_pip that replace its own, or install what is named there."
        ),
        source="vllm-project/vllm#12219; vllm-project/vllm#13047; vllm-project/vllm#22376",
        role=FailureRole.SYMPTOM,
        leads_to=("config-invalid", "engine-start-failed"),
        sample=(
            "Traceback (most recent call last):\n"
            "AttributeError: module 'torch.library' has no attribute 'infer_schema'\n"
            "ValueError: Model architectures ['LlamaForCausalLM'] failed to be inspected."
        ),
        near_miss="Error retrieving safetensors: Model architectures ['LlamaForCausalLM']",
    ),
    Signature(
        id="rope-scaling-format",
        pattern=(
            r"`rope_scaling` must be a dictionary|rope_scaling should have a 'rope_type' key"
            r"|rope_scaling\[[\"']type[\"']\].{0,80}\n(?:[ ~^]{1,200}\n)?\W{0,4}KeyError: 'type'"
            r"|KeyError: 'rope_type'"
        ),
        cause=(
            "config.json describes rope_scaling in a form that this vLLM or transformers does not "
            "read: the model is newer or older than the image."
        ),
        fix=(
            "Use an image whose transformers is at least the transformers_version of the model's "
            "config.json; remove rope-scaling and hf-overrides from vllm_args if they are set."
        ),
        source="vllm-project/vllm#9481; huggingface/transformers#32167",
        leads_to=("config-invalid",),
        sample="KeyError: 'rope_type'",
        near_miss="Unrecognized keys in `rope_scaling` for 'rope_type'='linear': {'type'}",
    ),
    Signature(
        id="jit-build-failed",
        pattern=(
            r"RuntimeError: Ninja build failed|^ninja: build stopped: subcommand failed"
            r"|RuntimeError: Error building extension|CalledProcessError: Command '\['ninja'"
        ),
        context=(
            r"(?:^|\n)"
            r"(?P<why>(?:[^\s:]{1,300}(?:\(\d{1,7}\)|(?::\d{1,7}){1,2})?: (?:fatal )?error: "
            r"|(?:nvcc|ptxas|cicc)\s{1,4}(?:fatal|error)\s{0,6}: |\S{0,200}\bld: "
            r"|/bin/sh: )[^\n]{1,300})"
        ),
        cause="A kernel that is compiled at the start could not be built: {why}.",
        fix=(
            "Use an image that has this kernel compiled, or whose CUDA toolkit is the one it "
            "was released with; another attention-backend or moe-backend may not need it. "
            "VLLM_USE_FLASHINFER_SAMPLER: 0 in vllm_env avoids FlashInfer's sampler."
        ),
        source="flashinfer-ai/flashinfer PR#4763; SystemPanic/flashinfer-windows#6",
        role=FailureRole.SYMPTOM,
        fallback=True,
        leads_to=("engine-start-failed",),
        sample=(
            "FAILED: sampling.cuda.o\n"
            '/x/flashinfer/sampling.cuh(623): error: class "cub::X" has no member "Y"\n'
            "ninja: build stopped: subcommand failed."
        ),
        near_miss="ninja: no work to do.",
    ),
    Signature(
        id="model-config-attribute",
        pattern=(
            r"AttributeError: '(?P<class>\w{1,80}Config)' object has no attribute "
            r"'(?P<name>\w{1,80})'"
        ),
        cause=(
            "{class} of the installed transformers has no {name}, which vLLM or the model's own "
            "code reads: they are of different releases, or config.json is that of another kind of "
            "model."
        ),
        fix=(
            "Use an image whose vLLM and transformers were released together and know this model; "
            "engine_pip must not replace transformers. rope_theta is missing where transformers 5 "
            "meets code for transformers 4."
        ),
        source="QwenLM/Qwen3#724; vllm-project/vllm#14687; vllm-project/vllm#19360",
        leads_to=("config-invalid", "engine-start-failed", "model-not-built"),
        sample="AttributeError: 'Gemma3Config' object has no attribute 'vocab_size'",
        near_miss="AttributeError: 'Gemma3Model' object has no attribute 'vocab_size'",
    ),
    Signature(
        id="model-class-unserved",
        pattern=(
            r"has no vLLM implementation and the Transformers implementation is not compatible"
            r"|The Transformers implementation of '?\w{1,80}'? is not compatible with vLLM"
            r"|Cannot find model module\. '\w{1,80}' is not a registered model"
        ),
        cause=(
            "config.json names a class that neither vLLM nor transformers can serve: the model is "
            "newer than the image, or it was saved as a part of another model."
        ),
        fix=(
            "Use a newer image, or the image that the model's card names. A model that was "
            "fine-tuned must have the architectures of its original in config.json."
        ),
        source="vllm-project/vllm#15411; vllm-project/vllm#18516",
        leads_to=("engine-start-failed", "config-invalid"),
        sample=(
            "ValueError: Qwen2_5_VLModel has no vLLM implementation and the Transformers "
            "implementation is not compatible with vLLM."
        ),
        near_miss="Qwen4Model has no vLLM implementation, falling back to Transformers",
    ),
    Signature(
        id="deepgemm-missing",
        pattern=(
            r"requires? DeepGEMM to be installed"
            r"|DeepGEMM backend is not available or outdated"
        ),
        cause=(
            "Sparse attention of this model needs DeepGEMM, which is not in this image, and which "
            "has no kernels for the GB10 in its own releases."
        ),
        fix=(
            "Use an image that was made for this model on the GB10 (sm_121), with kernels of its "
            "own for sparse attention."
        ),
        source="eugr/spark-vllm-docker#209; SystemPanic/vllm-windows#59",
        leads_to=("engine-start-failed", "model-not-built", "kernel-failed"),
        sample="RuntimeError: Sparse Attention Indexer CUDA op requires DeepGEMM to be installed.",
        near_miss="DeepGEMM E8M0 enabled on current platform.",
    ),
    Signature(
        id="nvcc-option-unknown",
        pattern=r"nvcc fatal\s{0,6}: Unknown option '(?P<option>[^'\n]{1,80})'",
        cause="The nvcc of this image is older than a kernel needs: it has no option {option}.",
        fix=(
            "Use an image with the CUDA toolkit that FlashInfer was released for (CUDA 13), or set "
            "CUDA_HOME in vllm_env to a newer toolkit in it. VLLM_USE_FLASHINFER_SAMPLER: 0 in "
            "vllm_env avoids FlashInfer's sampler."
        ),
        source="flashinfer-ai/flashinfer#1532; Dao-AILab/flash-attention#1750",
        leads_to=("engine-start-failed", "jit-build-failed"),
        sample="nvcc fatal   : Unknown option '-static-global-template-stub=false'",
        near_miss="nvcc fatal   : Unsupported gpu architecture 'compute_121a'",
    ),
    Signature(
        id="gguf-architecture",
        pattern=(
            r"GGUF model with architecture (?P<name>[\w.-]{1,60}) is not supported"
            r"|Architecture (?P<other>[\w.-]{1,60}) not supported$|Unknown gguf model_type: \w"
        ),
        cause="transformers, which reads GGUF files for vLLM, does not know the model's type.",
        fix=(
            "Serve the model in another format (safetensors, NVFP4, FP8, AWQ), or its GGUF file "
            "with llama.cpp."
        ),
        source="vllm-project/vllm#30691; vllm-project/vllm#33229; vllm-project/vllm#15480",
        leads_to=("engine-start-failed", "config-invalid"),
        sample="ValueError: GGUF model with architecture minimax-m2 is not supported yet.",
        near_miss="GGUF model with architecture llama is loaded",
    ),
)

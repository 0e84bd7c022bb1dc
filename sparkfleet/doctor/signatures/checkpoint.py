"""Failures of loading weights: names, shapes and forms that vLLM does not expect."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="weights-of-another-architecture",
        pattern=(
            r"There is no module or parameter named '(?P<name>[^'\n]{1,200})' in "
            r"(?P<class>\w{1,80})"
        ),
        cause="The weights have {name}, which this vLLM's {class} does not have.",
        fix=(
            "Use an image whose vLLM knows this model, or the weights' format (load-format, "
            "config-format: mistral); do not mix weights of several exports in one folder."
        ),
        source="vllm-project/vllm#21176; vllm-project/vllm#28517",
        sample=(
            "ValueError: There is no module or parameter named 'mm_whisper_embeddings' in "
            "LlamaForCausalLM"
        ),
        near_miss="There is no module named 'scipy'",
    ),
    Signature(
        id="weight-shape-mismatch",
        pattern=(
            r"assert (?:param_data|self\.data)\.shape == loaded_weight\.shape"
            r"|weight shape mismatch: parameter has"
            r"|Attempted to load weight \(torch\.Size|Tried to load weights of size torch\.Size"
        ),
        cause=(
            "A weight has another shape than this vLLM expects of the model: a quantization that "
            "it reads otherwise, a --tp that does not divide it, files of another model, or layers "
            "for speculation (MTP) that are not quantized as the others are."
        ),
        fix=(
            "Compare quantization and load-format in vllm_args with the model's card, and the "
            "files with `{task:weights.verify}`; try without speculative-config, with `--tp 1`, or "
            "a newer image."
        ),
        source="vllm-project/vllm PR#53233; vllm-project/vllm#19361",
        leads_to=("engine-start-failed",),
        sample="    assert param_data.shape == loaded_weight.shape\nAssertionError",
        near_miss="assert param_data.numel() > 0",
    ),
    Signature(
        id="weight-name-unknown",
        pattern=(
            r"KeyError: '(?P<key>(?:\w{1,40}\.){0,6}(?:layers|blocks|h)\.\d{1,4}\.[\w.]{0,120}"
            r"(?:weight|bias|qzeros|scales))'"
        ),
        cause=(
            "The checkpoint has {key}, which this vLLM does not expect of the model: it was "
            "quantized or saved in another way, or the image is older."
        ),
        fix=(
            "Compare quantization and load-format in vllm_args with the model's card, and use the "
            "image that it names. Its folder must not hold other weights, "
            "such as `consolidated*.safetensors`."
        ),
        source="vllm-project/vllm#23025; vllm-project/vllm#4989",
        leads_to=("engine-start-failed",),
        sample="KeyError: 'layers.1.mlp.experts.w13_weight'",
        near_miss="KeyError: 'layers.0.mlp.down_proj.weight_scale'",
    ),
    Signature(
        id="weights-not-in-checkpoint",
        pattern=(
            r"weights were not initialized from checkpoint(?:: {?(?P<names>'[^'\n]{1,120}')?)?"
        ),
        cause=(
            "The model that vLLM builds has weights that the files lack ({names}): this copy was "
            "saved without a part of it, such as images (visual) or MTP, or a file is missing."
        ),
        fix=(
            "Look for a missing file with `{task:weights.verify}`. If there is none, leave the "
            "part out: language-model-only: true in vllm_args for images, no speculative-config "
            "for MTP; or stage a complete copy of the model."
        ),
        source="vllm-project/vllm#49856; OpenBMB/AgentCPM-GUI#80; vllm-project/vllm#44788",
        leads_to=("engine-start-failed",),
        sample=(
            "ValueError: Following weights were not initialized from checkpoint: "
            "{'visual.blocks.23.norm1.weight', 'visual.blocks.15.norm2.bias'}"
        ),
        near_miss="All weights were initialized from the checkpoint",
    ),
    Signature(
        id="quantized-layer-attribute",
        pattern=(
            r"AttributeError: '(?P<layer>\w{0,60}Linear)' object has no attribute "
            r"'(?P<name>weight\w{0,30})'"
        ),
        cause=(
            "vLLM's code for this model uses {name} of a {layer}, which a quantized layer does not "
            "have: this vLLM cannot serve this quantization of the model."
        ),
        fix=(
            "Use the image that the model's card names or a newer one, or another quantization of "
            "the model."
        ),
        source="eugr/spark-vllm-docker#38; jethac/dgx-spark-hijinks",
        role=FailureRole.SYMPTOM,
        sample="AttributeError: 'ColumnParallelLinear' object has no attribute 'weight'",
        near_miss="AttributeError: 'Linear' object has no attribute 'bias'",
    ),
    Signature(
        id="compression-unknown",
        pattern=(
            r"No compressed-tensors compatible scheme was found"
            r"|KeyError: '(?P<key>[\w.]{1,200}\.(?:bitmask|compressed|row_offsets))'"
        ),
        cause=(
            "The checkpoint was compressed in a form of compressed-tensors that this vLLM cannot "
            "read: a newer one, or a sparse one."
        ),
        fix="Use a newer image, or another quantization of the model (NVFP4, FP8, AWQ).",
        source="vllm-project/llm-compressor#1427; vllm-project/llm-compressor#1241",
        leads_to=("engine-start-failed",),
        sample="NotImplementedError: No compressed-tensors compatible scheme was found.",
        near_miss="Using scheme: CompressedTensorsW4A16Fp4",
    ),
    Signature(
        id="bitsandbytes-weights",
        pattern=r"KeyError: '(?P<key>[\w.]{1,200}\.(?:SCB|absmax|quant_map|nested_absmax))'",
        cause=(
            "The checkpoint was saved with bitsandbytes ({key}), and vLLM reads it as another "
            "quantization, or cannot read it for this model or with --tp."
        ),
        fix=(
            "Set quantization: bitsandbytes and load-format: bitsandbytes in vllm_args; otherwise "
            "use another quantization of the model (NVFP4, FP8, AWQ)."
        ),
        source="vllm-project/vllm#11010; Duxiaoman-DI/XuanYuan#46",
        leads_to=("engine-start-failed",),
        sample="KeyError: 'layers.0.mlp.down_proj.weight.absmax'",
        near_miss="KeyError: 'layers.0.mlp.down_proj.weight'",
    ),
    Signature(
        id="quantization-config-missing",
        pattern=(
            r"Cannot find the config file for (?P<method>\w{1,40})"
            r"|Found multiple config files for (?:\w{1,40}): "
            r"|Model quantization method is not specified in the config"
        ),
        cause=(
            "vllm_args ask for a quantization ({method}) whose description the model's folder does "
            "not have: these weights are not quantized that way."
        ),
        fix=(
            "Remove quantization from vllm_args: vLLM reads the method from the checkpoint. To "
            "quantize BF16 weights while they are loaded, set quantization: fp8."
        ),
        source="vllm-project/vllm#13612; vllm-project/vllm#1419",
        leads_to=("options-refused",),
        sample="ValueError: Cannot find the config file for gptq",
        near_miss="Found the config file for gptq",
    ),
    Signature(
        id="gguf-tensors-unmapped",
        pattern=r"[Ff]ailed to map GGUF parameters? \(\d{1,9}\)",
        cause="vLLM cannot assign the tensors of this GGUF file to those of the model.",
        fix=(
            "Serve the model in another format (safetensors, NVFP4, FP8, AWQ), or its GGUF file "
            "with llama.cpp. `hf-config-path` and `tokenizer` must name the original model."
        ),
        source="vllm-project/vllm#38716; vllm-project/vllm-gguf-plugin#75",
        leads_to=("engine-start-failed",),
        sample="RuntimeError: Failed to map GGUF parameters (356): ['blk.0.ssm_a']",
        near_miss="Mapped GGUF parameters (356)",
    ),
    Signature(
        id="tensor-sizes-differ",
        pattern=(
            r"The size of tensor a \(\d{1,9}\) must match the size of tensor b \(\d{1,9}\)"
            r"|size mismatch, got input \(\d|mat1 and mat2 shapes cannot be multiplied"
            r"|shape mismatch: value tensor of shape"
        ),
        cause=(
            "Two tensors of the model do not fit together: weights that are quantized otherwise "
            "than vLLM reads them (two FP4 values are one byte), layers for MTP that are not "
            "quantized, a --tp that does not divide them, or an error of this vLLM."
        ),
        fix=(
            "Try without speculative-config, then with `--tp 1`; compare quantization in vllm_args "
            "with the model's card, and use the image that it names or a newer one."
        ),
        source="vllm-project/vllm#41108; vllm-project/vllm#19050; vllm-project/vllm PR#57278",
        role=FailureRole.SYMPTOM,
        fallback=True,
        leads_to=("engine-start-failed", "step-failed", "weights-not-loaded", "kernel-failed"),
        sample=(
            "RuntimeError: The size of tensor a (3072) must match the size of tensor b (6144) at "
            "non-singleton dimension 1"
        ),
        near_miss="The size of the tensor is 3072",
    ),
)

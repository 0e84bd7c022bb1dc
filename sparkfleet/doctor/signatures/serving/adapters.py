"""Failures of LoRA adapters."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import Signature

ROWS = (
    Signature(
        id="lora-module-unsupported",
        pattern=(
            r"\w is unsupported LoRA weight"
            r"|While loading [^\n]{1,300}?, expected target modules in "
            r"|support adapters that add tokens to the vocabulary"
        ),
        cause=(
            "The adapter changes parts of the model that vLLM takes no adapter for, such as the "
            "embedding or lm_head, or its names are those of another library."
        ),
        fix=(
            "Train it without modules_to_save and with target_modules that are linear layers, or "
            "merge it into the model (PEFT's merge_and_unload) and serve the result without "
            "lora-modules."
        ),
        source="vllm-project/vllm#32599; vllm-project/vllm#9280; vLLM's lora/lora_model.py, 0.28.0",
        leads_to=("engine-start-failed",),
        sample="ValueError: base_model.model.lm_head.base_layer.weight is unsupported LoRA weight",
        near_miss="Loaded new LoRA adapter: name 'sql-lora', path '/models/sql'",
    ),
    Signature(
        id="lora-model-unsupported",
        pattern=(
            r"No supported LoRA modules found in \w"
            r"|Model \S{1,120} is not supported for LoRA\.|\w does not support LoRA\b(?! context)"
            r"|To support LoRA for MoE model, '\w{1,60}' must be implemented"
        ),
        cause="vLLM takes no LoRA adapters for this model, or not with this kernel of its experts.",
        fix=(
            "Merge the adapter into the model and serve the result without enable-lora. For a "
            "mixture of experts try moe-backend: triton in vllm_args."
        ),
        source="vllm-project/vllm#53470; vllm-project/vllm#11431; vllm-project/vllm#3044",
        leads_to=("engine-start-failed", "model-not-built", "options-refused"),
        sample="AssertionError: No supported LoRA modules found in NemotronHForCausalLM.",
        near_miss="LoRA is supported for this model",
    ),
)

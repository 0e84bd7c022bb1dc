"""The options of vLLM that recipes set, explained in plain words (from vLLM's own help).

For readers who are new to vLLM; sparkfleet's own variables have their help in their table.
"""

from __future__ import annotations

from collections.abc import Mapping

OPTIONS: Mapping[str, str] = {
    "async-scheduling": "plan the next step while the GPU still works on this one",
    "attention-backend": "which program computes attention; vLLM chooses one if this is not set",
    "default-chat-template-kwargs": "values that the model's chat template gets for every request",
    "dtype": "the number format to compute in; auto is the checkpoint's own",
    "enable-auto-tool-choice": "let the model decide to call a tool; needs tool-call-parser",
    "enable-chunked-prefill": "read long prompts in pieces, between the answers of others",
    "enable-expert-parallel": "spread the experts of a mixture over the GPUs, each one whole",
    "enable-prefix-caching": "keep what was computed for a prompt's beginning for the next one",
    "enforce-eager": "do not compile; starts sooner and answers a little slower",
    "gpu-memory-utilization": "the part of all memory, 121.6 GiB on a Spark, that vLLM may take; "
    "the CPU, the desktop and files read from disk need the rest",
    "hf-overrides": "values that replace some of the model's config.json",
    "kv-cache-dtype": "number format of the cache that holds what was read and written so far; "
    "fp8 takes half of the memory",
    "kv-cache-memory-bytes": "memory for that cache, instead of a part of all memory",
    "language-model-only": "leave the parts for images and sound out",
    "load-format": "how weights are read from disk",
    "mamba-ssm-cache-dtype": "number format of the state of Mamba layers",
    "max-model-len": "the longest prompt and answer together, tokens",
    "max-num-batched-tokens": "the most tokens that one step works on",
    "max-num-seqs": "how many requests are answered at the same time",
    "moe-backend": "which program computes the experts of a mixture",
    "override-generation-config": "values that replace some of the model's generation_config.json",
    "quantization": "how the weights are packed into few bits",
    "reasoning-parser": "how reasoning is separated from the answer that clients get",
    "reasoning-parser-plugin": "a file with a reasoning parser that vLLM does not have itself",
    "speculative-config": "a small draft proposes the next tokens and the model checks them in one "
    "pass: the same answer, sooner, for one request at a time",
    "tool-call-parser": "how the model's calls of tools are read",
    "trust-remote-code": "run Python code that comes with the model",
}

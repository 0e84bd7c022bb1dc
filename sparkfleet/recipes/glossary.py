"""The options and variables of vLLM that recipes set, explained in plain words.

Those of vLLM are from its own help and envs.py, those of the B12X image from its names.

For readers who are new to vLLM; sparkfleet's own variables have their help in their table.
"""

from __future__ import annotations

from collections.abc import Mapping

OPTIONS: Mapping[str, str] = {
    "async-scheduling": "plan the next step while the GPU is still working on this one",
    "attention-backend": "which program computes attention; vLLM chooses one if this is not set",
    "block-size": "tokens in one block of the KV cache",
    "compilation-config": "what is compiled and which CUDA graphs are recorded",
    "decode-context-parallel-size": "GPUs that share the cache of one request between them",
    "default-chat-template-kwargs": "values that the model's chat template gets for every request",
    "dtype": "the number format to compute in; auto is the checkpoint's own",
    "disable-custom-all-reduce": "sum over GPUs with NCCL alone",
    "enable-auto-tool-choice": "let the model decide to call a tool; needs tool-call-parser",
    "enable-chunked-prefill": "read long prompts in pieces, between the answers to other requests",
    "enable-expert-parallel": "spread the experts of a mixture over the GPUs, each one whole",
    "enable-flashinfer-autotune": "try several kernels of FlashInfer at the start and keep the "
    "fastest",
    "enable-prefix-caching": "reuse what was computed for the same beginning of an earlier prompt",
    "enforce-eager": "do not compile; starts sooner and answers a little slower",
    "gdn-decode-kernel": "which program computes Gated DeltaNet layers; of the B12X fork of vLLM",
    "gpu-memory-utilization": "the part of all memory, 121.6 GiB on a Spark, that vLLM may take; "
    "the CPU, the desktop and files read from disk need the rest",
    "hf-overrides": "values that replace some of the model's config.json",
    "kv-cache-dtype": "number format of the cache that holds what was read and written so far; "
    "fp8 takes half of the memory",
    "kv-cache-memory-bytes": "memory for the KV cache, instead of a share of all memory",
    "language-model-only": "do not load the parts for images and sound",
    "limit-mm-per-prompt": "how many images, videos and sounds one request may hold",
    "linear-backend": "which program computes linear layers",
    "load-format": "how weights are read from disk",
    "mamba-backend": "which program computes Mamba layers",
    "mamba-cache-mode": "which states of Mamba and linear layers are kept; align keeps those at "
    "the ends of blocks, so that prefixes are reused",
    "mamba-cache-philox-rounds": "rounds of the random numbers that stochastic rounding uses",
    "mamba-ssm-cache-dtype": "number format of the state of Mamba layers",
    "max-cudagraph-capture-size": "the largest batch for which a CUDA graph is recorded",
    "max-model-len": "the longest prompt and answer together, tokens",
    "max-num-batched-tokens": "the most tokens that one step works on",
    "max-num-seqs": "how many requests are answered at the same time",
    "moe-backend": "which program computes the experts of a mixture",
    "override-generation-config": "values that replace some of the model's generation_config.json",
    "quantization": "how the weights are packed into few bits",
    "reasoning-config": "the marks between which vLLM counts tokens as reasoning",
    "reasoning-parser": "how reasoning is separated from the answer that clients get",
    "reasoning-parser-plugin": "a file with a reasoning parser that vLLM itself lacks",
    "speculative-config": "a small draft proposes the next tokens and the model checks them in "
    "one pass: the same answer, sooner, for one request at a time",
    "tokenizer-mode": "which program turns text into tokens; some models have their own",
    "tool-call-parser": "how the model's tool calls are parsed",
    "trust-remote-code": "run Python code that comes with the model",
}

ENVIRONMENT: Mapping[str, str] = {
    "B12X_COMPILE_WORKERS": "processes that compile B12X kernels at the same time",
    "B12X_MLA_SM120_UNIFIED": "one B12X kernel for all steps of MLA attention on sm_12x",
    "B12X_MOE_FORCE_A8": "B12X computes experts with activations of 8 bits",
    "B12X_POLICY_MODE": "how B12X chooses its kernels",
    "CUTE_DSL_ARCH": "the GPU that CUTLASS kernels are compiled for; sm_121a is the GB10",
    "HF_HUB_OFFLINE": "do not contact the Hub",
    "LAMPORT_RS_SCONV": "Inkling's own kernel that sums over the GPUs; 0 switches it off",
    "NCCL_IGNORE_CPU_AFFINITY": "let NCCL choose the CPU cores of its threads",
    "OMP_NUM_THREADS": "threads of the CPU for each process",
    "PYTORCH_CUDA_ALLOC_CONF": "how PyTorch asks for memory; expandable segments leave fewer gaps",
    "SAFETENSORS_FAST_GPU": "read weights straight to the GPU",
    "TORCH_CUDA_ARCH_LIST": "the GPU that PyTorch's extensions are compiled for",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "allow a longer context than config.json says",
    "VLLM_B12X_MOE_FP4_LAYER_MAX_INPUT_SCALE": "B12X experts whose input scale is that of the "
    "layer",
    "VLLM_ENABLE_PCIE_ALLREDUCE": "sums over PCIe; 0 switches it off, as each Spark has one GPU",
    "VLLM_ENABLE_ROCE_ALLREDUCE": "sum small tensors of two Sparks over RoCE without NCCL",
    "VLLM_FLOAT32_MATMUL_PRECISION": "how exactly products of 32-bit numbers are computed",
    "VLLM_MEMORY_PROFILE_INCLUDE_ATTN": "count the memory of attention when the cache is sized",
    "VLLM_MOE_SKIP_PADDING": "do not send padding tokens to the experts",
    "VLLM_MXFP8_LM_HEAD": "compute the output layer in MXFP8",
    "VLLM_NO_USAGE_STATS": "send no statistics to vLLM's authors",
    "VLLM_ROCE_ALLREDUCE_MAX_SIZE": "the largest tensor that is summed over RoCE",
    "VLLM_SSM_CONV_STATE_LAYOUT": "the order of dimensions in the state of linear layers",
    "VLLM_USE_AOT_COMPILE": "keep compiled code for the next start",
    "VLLM_USE_B12X_FP8_GEMM": "B12X kernels for products in FP8",
    "VLLM_USE_B12X_MHC": "B12X kernels for DeepSeek's hyper-connections",
    "VLLM_USE_B12X_MOE": "B12X kernels for experts",
    "VLLM_USE_B12X_SPARSE_INDEXER": "B12X kernels for the indexer of sparse attention",
    "VLLM_USE_B12X_WO_PROJECTION": "B12X kernels for the output of attention",
    "VLLM_USE_BREAKABLE_CUDAGRAPH": "record CUDA graphs that stop at attention",
    "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8": "FlashInfer computes MXFP4 experts with activations "
    "in MXFP8",
    "VLLM_USE_FLASHINFER_SAMPLER": "FlashInfer chooses the next token",
    "VLLM_USE_MEGA_AOT_ARTIFACT": "keep all compiled code in one file for the next start",
    "VLLM_USE_V2_MODEL_RUNNER": "the second version of the program that runs each step",
    "VLLM_WORKER_MULTIPROC_METHOD": "how processes of ranks are started",
}

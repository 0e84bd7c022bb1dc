"""Failures of what was typed: options, files and environment of `vllm serve`."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="C32",
        pattern=r"argument (?P<option>--[\w-]+): Value (?P<value>.*) cannot be converted",
        cause="{option} came as {value}: a shell on the way quoted it twice.",
        fix="Give it in vllm_args as a YAML mapping; `invoke cluster.render` shows the result.",
        source="case C32",
    ),
    Signature(
        id="C34",
        pattern=r"error: unrecognized arguments: (?P<what>.*)",
        cause="This vLLM has no option {what}.",
        fix="Take it out of vllm_args, or use an image whose vLLM has it.",
        source="case C34; Python's argparse",
    ),
    Signature(
        id="V-usage",
        pattern=r"^vllm serve: error: (?P<what>.*)",
        cause="vLLM refuses its options: {what}",
        fix="Correct vllm_args in the recipe.",
        source="cases/outputs/vllm-log.bad-speculative-config-backslashes.txt",
        role=FailureRole.SYMPTOM,
    ),
    Signature(
        id="C33",
        pattern=r"\((?P<path>[^()]*)\) appears path-like, but doesn't exist",
        cause="The chat template {path} is not inside the container.",
        fix="Name the file in the recipe's files, which stages and mounts it on every host.",
        source="case C33",
    ),
    Signature(
        id="L-batch",
        pattern=(
            r"max_tokens_per_mm_item \((?P<item>\d+)\) is larger than max_num_batched_tokens "
            r"\((?P<batch>\d+)\)"
        ),
        cause="An image takes {item} tokens, and a batch holds {batch}.",
        fix="Set max-num-batched-tokens to {item} or more in vllm_args.",
        source="cases/outputs/vllm-log.bad-mm-item-larger-than-batched-tokens.txt",
    ),
    Signature(
        id="S3-variable",
        pattern=r"Unknown vLLM environment variable detected: (?P<name>\S+)",
        cause="This vLLM ignores {name}.",
        fix="Take {name} out of vllm_env, or use its option in vllm_args.",
        source="seed 3, bring-up",
        role=FailureRole.WARNING,
    ),
)

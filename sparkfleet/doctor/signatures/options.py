"""Errors in the options, files and environment of `vllm serve`."""

from __future__ import annotations

from sparkfleet.doctor.signatures.row import FailureRole, Signature

ROWS = (
    Signature(
        id="option-quoted-twice",
        pattern=r"argument (?P<option>--[\w-]+): Value (?P<value>.*) cannot be converted",
        cause="{option} arrived as {value}: a shell on the way quoted it twice.",
        fix="Set it in vllm_args as a YAML mapping; `{task:cluster.render}` shows the result.",
        source="eugr/spark-vllm-docker#111",
    ),
    Signature(
        id="option-unknown",
        pattern=r"error: unrecognized arguments: (?P<what>.*)",
        cause="This vLLM has no option {what}.",
        fix="Remove it from vllm_args, or use an image whose vLLM has it.",
        source="Python's argparse; spark-arena/sparkrun#287",
    ),
    Signature(
        id="vllm-usage-error",
        pattern=r"^vllm serve: error: (?P<what>.*)",
        cause="vLLM rejects its options: {what}",
        fix="Correct vllm_args in the recipe.",
        source="vLLM's own message",
        role=FailureRole.SYMPTOM,
    ),
    Signature(
        id="chat-template-missing",
        pattern=r"\((?P<path>[^()]*)\) appears path-like, but doesn't exist",
        cause="The chat template {path} does not exist in the container.",
        fix="Add the file to the recipe's weights_files, which stages it on every host.",
        source="eugr/spark-vllm-docker#294",
    ),
    Signature(
        id="mm-item-larger-than-batch",
        pattern=(
            r"max_tokens_per_mm_item \((?P<item>\d+)\) is larger than max_num_batched_tokens "
            r"\((?P<batch>\d+)\)"
        ),
        cause="An image needs {item} tokens, but a batch holds {batch}.",
        fix="Set max-num-batched-tokens to {item} or more in vllm_args.",
        source="vLLM's own message",
    ),
    Signature(
        id="vllm-variable-unknown",
        pattern=r"Unknown vLLM environment variable detected: (?P<name>\S+)",
        cause="This vLLM ignores {name}.",
        fix="Remove {name} from vllm_env, or use its option in vllm_args.",
        source="vLLM's own message",
        role=FailureRole.WARNING,
    ),
)

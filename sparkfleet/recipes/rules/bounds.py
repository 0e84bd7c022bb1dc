"""Numbers that vLLM refuses: out of range, at odds with each other, or of a draft model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.vllm.options import VllmOption
from sparkfleet.vllm.releases import parse_version

CUDA_GRAPHS = ("none", "piecewise", "full", "full_decode_only", "full_and_piecewise")
# Methods whose draft is a model of its own; others guess from the prompt or from the model itself.
OF_A_MODEL = ("eagle", "eagle3", "dflash", "draft_model", "medusa", "mlp_speculator")
COUNTED = ("draft_model", "eagle", "eagle3", "ngram", "ngram_gpu")  # their draft names no number
NAMED_BY_MODEL = ("eagle-", "eagle3", "mtp", "medusa", "speculator")  # vLLM guesses the method
COUNT = "num_speculative_tokens"
SUFFIX_LEAST = {"suffix_decoding_max_tree_depth": 1, "suffix_decoding_max_cached_requests": 0}
NO_DRAFT_MODELS_UNTIL = Version("0.14.1")
MTP_LAST = Version("0.32.0")  # the newest whose source was read
WITHOUT_MODEL = ("ngram", "ngram_gpu", "suffix", "extract_hidden_states", "custom_class", "dspark")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberBounds:
    """Bounds of an option: its lowest and highest value, and the number that must divide it."""

    least: int
    most: int | None = None
    multiple: int = 1

    def admit(self, count: int) -> bool:
        """Return whether vLLM takes the number."""
        inside = self.least <= count and (self.most is None or count <= self.most)
        return inside and count % self.multiple == 0


# The bounds of vLLM's config/{cache,model,scheduler,parallel}.py and v1/attention, 0.32.0.
BOUNDS = {
    "block-size": NumberBounds(least=16, multiple=16),  # of every attention backend on NVIDIA
    "decode-context-parallel-size": NumberBounds(least=1),
    "mamba-block-size": NumberBounds(least=8, multiple=8),
    "max-model-len": NumberBounds(least=1),
    "max-num-batched-tokens": NumberBounds(least=1),
    "max-num-seqs": NumberBounds(least=1),
    "num-gpu-blocks-override": NumberBounds(least=1),
    "optimization-level": NumberBounds(least=0, most=3),
    "stream-interval": NumberBounds(least=1),
}


def _check_ranges(context: RuleContext) -> Iterator[RuleFinding]:
    for name, bounds in BOUNDS.items():
        option = context.option(name)
        count = read_count(option)
        if option is None or count is None:
            continue
        if not bounds.admit(count):
            yield RuleFinding(
                subject=option.flag,
                expected=_describe_bounds(name, bounds),
                seen=str(option.value),
                where=option.where,
                fix=f"write {_describe_bounds(name, bounds)}, or remove {name}",
            )


def _check_context_ranks(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("decode-context-parallel-size")
    count = read_count(option)
    if option is None or not count or count < 0 or context.tp == 1:
        return
    if context.tp % count and context.option("prefill-context-parallel-size") is None:
        yield RuleFinding(
            subject=option.flag,
            expected=f"a number that divides --tp {context.tp}",
            seen=str(option.value),
            where=option.where,
            fix="write such a number, or remove decode-context-parallel-size",
        )


def _describe_bounds(name: str, bounds: NumberBounds) -> str:
    if bounds.most is not None:
        return f"{bounds.least} to {bounds.most}"
    least = f"at least {bounds.least}" + (", or auto" if name == "max-model-len" else "")
    return least if bounds.multiple == 1 else f"a multiple of {bounds.multiple}"


def read_count(option: VllmOption | None) -> int | None:
    """Return the integer of an option; None for "auto" and where there is none."""
    return None if option is None else option.integer  # the rule `number` reports others


def _check_batch(context: RuleContext) -> Iterator[RuleFinding]:
    batch = context.option("max-num-batched-tokens")
    size = read_count(batch)
    if batch is None or size is None or size < 1:
        return
    requests = read_count(context.option("max-num-seqs"))
    if requests is not None and size < requests:
        yield RuleFinding(
            subject=batch.flag,
            expected=f"at least max-num-seqs, {requests}",
            seen=str(size),
            where=batch.where,
            fix=f"set max-num-batched-tokens: {requests} or more, or lower max-num-seqs",
        )
    length = read_count(context.option("max-model-len"))
    chunks = context.option("enable-chunked-prefill")
    if length is not None and size < length and chunks is not None and chunks.value is False:
        yield RuleFinding(
            subject=batch.flag,
            expected=f"at least max-model-len, {length}, without chunked prefill",
            seen=str(size),
            where=batch.where,
            fix="remove enable-chunked-prefill: false, or raise max-num-batched-tokens",
        )


def _check_draft(context: RuleContext) -> Iterator[RuleFinding]:
    draft, where = context.draft, context.at("speculative-config")
    method = str(draft.get("method") or "").lower()
    tokens = draft.get("num_speculative_tokens")
    if not draft:
        return
    if isinstance(tokens, int) and tokens < 1:
        yield RuleFinding(
            subject="num_speculative_tokens",
            expected="at least 1",
            seen=str(tokens),
            where=where,
            fix="write 1 or more, or remove speculative-config",
        )
    yield from _check_draft_start(method, context)
    if tokens is None and method in COUNTED:
        yield RuleFinding(
            subject="num_speculative_tokens",
            expected=f"a number of tokens for the method {method}",
            seen="none",
            where=where,
            fix="add num_speculative_tokens to speculative-config, as the draft's card has it",
            severity=Severity.ERROR if method.startswith("ngram") else Severity.WARNING,
        )
    if method in OF_A_MODEL and not draft.get("model"):
        yield RuleFinding(
            subject="speculative-config",
            expected=f"the model of the draft for the method {method}",
            seen="no model",
            where=where,
            fix="add model: ORG/NAME to speculative-config, and to weights_drafts",
        )
    if "tensor_parallel_size" in draft:
        yield RuleFinding(
            subject="tensor_parallel_size in speculative-config",
            expected="draft_tensor_parallel_size",
            seen=str(draft["tensor_parallel_size"]),
            where=where,
            fix="rename it to draft_tensor_parallel_size",
        )
    yield from _check_draft_method(method, context)


def _check_draft_start(method: str, context: RuleContext) -> Iterator[RuleFinding]:
    """Check what vLLM computes from the draft before it looks at its config."""
    draft, version = context.draft, parse_version(context.version)
    where = context.at("speculative-config")
    counted = any(key.startswith(COUNT[:-1]) for key in draft)
    if method.endswith("mtp") and not (counted and draft.get(COUNT, 1)):
        yield RuleFinding(
            subject="num_speculative_tokens",
            expected="a number of tokens: vLLM compares it with 1 before it has a default",
            seen="none",
            where=where,
            fix="add num_speculative_tokens to speculative-config; try 1 to 3",
            severity=Severity.WARNING if version is None or version > MTP_LAST else Severity.ERROR,
        )
    ranks = draft.get("draft_tensor_parallel_size")
    if type(ranks) is int and ranks not in (1, context.tp) and method != "draft_model":
        yield RuleFinding(
            subject="draft_tensor_parallel_size in speculative-config",
            expected=f"1 or {context.tp}, as --tp",
            seen=str(ranks),
            where=where,
            fix="remove draft_tensor_parallel_size",
        )
    named = any(word in str(draft.get("model") or "").lower() for word in NAMED_BY_MODEL)
    guessed = not method and bool(draft.get("model")) and not named
    if version and version <= NO_DRAFT_MODELS_UNTIL and (method == "draft_model" or guessed):
        yield RuleFinding(
            subject="speculative-config",
            expected="another method: draft models came with vLLM 0.16",
            seen=f"{method or 'no method'} with {context.version}",
            where=where,
            fix="name the draft's method (eagle3, mtp), use ngram, or run a later vLLM",
            severity=Severity.ERROR if method else Severity.WARNING,
        )


def _check_lookup(context: RuleContext) -> Iterator[RuleFinding]:
    """Check the lengths of n-grams, and the limits of suffix decoding."""
    draft = context.draft
    least, most = draft.get("prompt_lookup_min"), draft.get("prompt_lookup_max")
    wrong = [
        (name, limit, draft[name])
        for name, limit in SUFFIX_LEAST.items()
        if type(draft.get(name)) is int and draft[name] < limit
    ]
    if type(least) is int and type(most) is int and least > most:
        wrong.append(("prompt_lookup_max", least, most))
    for name, limit, seen in wrong:
        yield RuleFinding(
            subject=f"{name} in speculative-config",
            expected=f"at least {limit}",
            seen=str(seen),
            where=context.at("speculative-config"),
            fix=f"write {limit} or more, or remove {name}",
        )


def _check_draft_method(method: str, context: RuleContext) -> Iterator[RuleFinding]:
    known = method in (*OF_A_MODEL, *WITHOUT_MODEL, "") or method.endswith("mtp")
    if not known:
        yield RuleFinding(
            subject="method in speculative-config",
            expected=f"mtp, one of {', '.join((*OF_A_MODEL, *WITHOUT_MODEL))}, or no method",
            seen=method,
            where=context.at("speculative-config"),
            fix="write one of these; a newer vLLM may have more",
            severity=Severity.WARNING,
        )


def _check_cuda_graphs(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("compilation-config")
    value = None if option is None else option.value
    mode = value.get("cudagraph_mode") if isinstance(value, dict) else None
    if option is not None and isinstance(mode, str) and mode.lower() not in CUDA_GRAPHS:
        yield RuleFinding(
            subject="cudagraph_mode in compilation-config",
            expected=f"one of {', '.join(CUDA_GRAPHS).upper()}",
            seen=mode,
            where=option.where,
            fix="write one of these, or remove cudagraph_mode",
            severity=Severity.WARNING,
        )


RULES = (
    Rule(
        id="range",
        why="vLLM exits when it reads its options: the number is out of range",
        source="vLLM's config/cache.py, model.py, scheduler.py, parallel.py and vllm.py, 0.32.0",
        find=_check_ranges,
    ),
    Rule(
        id="context_ranks",
        why="vLLM exits when it reads its options: it shares the context among the ranks of --tp",
        source="vLLM's config/parallel.py, 0.32.0",
        find=_check_context_ranks,
    ),
    Rule(
        id="batch",
        why="vLLM exits when it reads its options: max_num_batched_tokens is too small",
        source="vLLM's config/scheduler.py, verify_max_model_len, 0.32.0",
        find=_check_batch,
    ),
    Rule(
        id="draft",
        why=(
            "vLLM exits when it reads its options: the options of the draft are incomplete or out "
            "of range"
        ),
        source="vLLM's config/speculative.py, 0.11 to 0.32; vllm-project/vllm#55323, "
        "vllm-project/vllm#31883",
        find=_check_draft,
    ),
    Rule(
        id="lookup",
        why="vLLM exits when it reads its options: a length of the n-gram lookup is out of range",
        source="vLLM's config/speculative.py, 0.11 to 0.31",
        find=_check_lookup,
    ),
    Rule(
        id="cuda_graphs",
        why="vLLM exits when it reads its options: there is no such mode",
        source="vLLM's config/compilation.py, CUDAGraphMode, 0.32.0",
        find=_check_cuda_graphs,
    ),
)

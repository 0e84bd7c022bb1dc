"""Options that work only with another one, with a value of another one, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.bounds import read_count
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.vllm.environment import is_switched_on
from sparkfleet.vllm.options import VllmOption, parse_json_object
from sparkfleet.vllm.releases import parse_version

LAST = Version("0.32.0")  # the newest whose source was read
RAY_ASYNC_SINCE = Version("0.21.0")  # VLLM_USE_RAY_V2_EXECUTOR_BACKEND is on by default
CONVERTED_UNTIL = Version("0.21.0")
RAY_VARIABLE = "VLLM_USE_RAY_V2_EXECUTOR_BACKEND"
STAGED_ASYNC_UNTIL = Version("0.14.1")
ASYNC_SINCE = Version("0.11.2")
PARTIAL = ("max-num-partial-prefills", "max-long-partial-prefills")
DBO_BACKENDS = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """An option that vLLM takes only with another one, since a release; its source is `raised`.

    `value` is what the other one must be; None is anything that switches it on.
    """

    option: str
    needs: str
    raised: str
    since: Version
    value: str | None = None


NEEDS = (
    Need(
        option="lora-modules",
        needs="enable-lora",
        raised="v1/worker/lora_model_runner_mixin.py",
        since=Version("0.10.2"),
    ),
    Need(
        option="enable-log-outputs",
        needs="enable-log-requests",
        raised="cli_args.py",
        since=Version("0.11.2"),
    ),
    Need(
        option="collect-detailed-traces",
        needs="otlp-traces-endpoint",
        raised="config/observability.py",
        since=Version("0.11.2"),
    ),
    Need(
        option="enable-elastic-ep",
        needs="enable-eplb",
        raised="config/parallel.py",
        since=Version("0.17.1"),
    ),
    Need(
        option="numa-bind-nodes",
        needs="numa-bind",
        raised="config/parallel.py",
        since=Version("0.20.2"),
    ),
    Need(
        option="numa-bind-cpus",
        needs="numa-bind",
        raised="config/parallel.py",
        since=Version("0.20.2"),
    ),
    Need(
        option="enable-mamba-cache-stochastic-rounding",
        needs="mamba-ssm-cache-dtype",
        value="float16",
        raised="config/vllm.py",
        since=Version("0.20.2"),
    ),
    Need(
        option="enable-mamba-cache-stochastic-rounding",
        needs="mamba-backend",
        value="flashinfer",
        raised="config/mamba.py: on a GB10 Triton cannot",
        since=Version("0.20.2"),
    ),
    Need(
        option="mamba-ssu-algorithm",
        needs="mamba-backend",
        value="flashinfer",
        raised="config/mamba.py",
        since=Version("0.27.1"),
    ),
    Need(
        option="mm-shm-cache-max-object-size-mb",
        needs="mm-processor-cache-type",
        value="shm",
        raised="config/multimodal.py",
        since=Version("0.11.2"),
    ),
    Need(
        option="per-request-spec-decode-metrics",
        needs="speculative-config",
        raised="config/vllm.py",
        since=Version("0.29.0"),
    ),
)
DEFAULTS = {"mm-shm-cache-max-object-size-mb": "128"}  # a value that changes nothing is not refused


def _rate(context: RuleContext, since: Version, last: Version = LAST) -> Severity | None:
    """Return ERROR for a vLLM that is known to refuse it, WARNING for an unknown one, else None."""
    version = parse_version(context.version)
    if version is None:
        return Severity.WARNING
    if version < since:
        return None
    return Severity.ERROR if version <= last else Severity.WARNING


def _check_needs(context: RuleContext) -> Iterator[RuleFinding]:
    for need in NEEDS:
        option = context.enabled_option(need.option)
        other = context.enabled_option(need.needs)
        severity = _rate(context, need.since)
        usual = option is not None and str(option.value) == DEFAULTS.get(need.option)
        if option is None or severity is None or usual:
            continue
        if other is not None and need.value in (None, str(other.value).lower()):
            continue
        if need.needs == "speculative-config" and context.draft:
            continue  # of --spec-method and its kin
        wanted = f"{need.needs}: {need.value or 'true, or its value'}"
        yield RuleFinding(
            subject=option.flag,
            expected=f"--{need.needs}{' ' + need.value if need.value else ''} as well",
            seen="no such option" if other is None else str(other.value),
            where=option.where,
            fix=f"write in vllm_args: {wanted}, or remove {need.option} (vLLM's {need.raised})",
            severity=severity,
        )


def _check_silenced(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.enabled_option("enable-per-request-metrics")
    silenced = context.enabled_option("disable-log-stats")
    severity = _rate(context, Version("0.25.1"))
    if option is not None and silenced is not None and severity is not None:
        yield RuleFinding(
            subject=option.flag,
            expected="no disable-log-stats",
            seen="disable-log-stats: true",
            where=option.where,
            fix="remove disable-log-stats, or enable-per-request-metrics",
            severity=severity,
        )


def _check_overlap(context: RuleContext) -> Iterator[RuleFinding]:
    """Compare the backend of dual batch overlap as VllmConfig does."""
    option = context.enabled_option("enable-dbo")
    backend = context.value("all2all-backend")
    severity = _rate(context, Version("0.11.2"))
    of_environment = context.environment.get("VLLM_ALL2ALL_BACKEND")
    if option is None or severity is None or backend in DBO_BACKENDS or of_environment:
        return
    yield RuleFinding(
        subject=option.flag,
        expected=f"--all2all-backend {', '.join(DBO_BACKENDS[:-1])} or {DBO_BACKENDS[-1]}",
        seen=backend or "vLLM's default, allgather_reducescatter",
        where=option.where,
        fix="remove enable-dbo",
        severity=severity,
    )


def _check_partial_prefills(context: RuleContext) -> Iterator[RuleFinding]:
    for name in PARTIAL:
        option = context.option(name)
        count = read_count(option)
        version = parse_version(context.version)
        gone = version is not None and version > Version("0.26.0")  # the rule `option` names it
        if option is not None and count is not None and count != 1 and not gone:
            yield RuleFinding(
                subject=option.flag,
                expected="1, or unset: vLLM's V1 engine has one partial prefill",
                seen=str(option.value),
                where=option.where,
                fix=f"remove {name}",
            )


def _check_async_start(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("async-scheduling")
    version = parse_version(context.version)
    if option is None or option.value is not True or version is None or version < ASYNC_SINCE:
        return
    ray = context.tp * context.pp > 1 and context.settings.text("vllm_executor") == "ray"
    ray_v2 = is_switched_on(context.environment.get(RAY_VARIABLE))
    if ray and version < RAY_ASYNC_SINCE and not ray_v2:
        seen, fix = "vllm_executor: ray", "remove async-scheduling, or set vllm_executor: mp"
    elif context.pp > 1 and version <= STAGED_ASYNC_UNTIL:
        seen, fix = f"--pp {context.pp}", "remove async-scheduling, or divide the model by --tp"
    elif context.draft.get("disable_padded_drafter_batch") is True:
        seen, fix = "disable_padded_drafter_batch", "remove async-scheduling"
    else:
        return
    yield RuleFinding(
        subject=option.flag,
        expected="unset",
        seen=f"true, with {seen}",
        where=option.where,
        fix=fix,
        # a build of main between two releases has the number of the earlier one
        severity=Severity.WARNING if version.is_prerelease else Severity.ERROR,
    )


def _check_conversion(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("convert")
    runner = context.value("runner")
    version = parse_version(context.version)
    explicit = context.value("convert") in ("embed", "classify", "reward")
    if option is None or not explicit or runner not in ("", "auto") or version is None:
        return
    if version <= CONVERTED_UNTIL:
        yield RuleFinding(
            subject=option.flag,
            expected="runner: pooling as well, for a model that generates text",
            seen=f"no runner, with vLLM {context.version}",
            where=option.where,
            fix="write in vllm_args: runner: pooling",
            severity=Severity.WARNING,  # a model for embeddings has that runner by itself
        )


def _check_long_prefills(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("long-prefill-token-threshold")
    threshold = read_count(option)
    length = read_count(context.option("max-model-len"))
    severity = _rate(context, Version("0.27.1"))
    if option is None or severity is None or threshold is None or length is None:
        return
    if threshold > length:
        yield RuleFinding(
            subject=option.flag,
            expected=f"max-model-len, {length}, at most",
            seen=str(option.value),
            where=option.where,
            fix="lower long-prefill-token-threshold, or remove it",
            severity=severity,
        )


def _check_mega_experts(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("moe-backend")
    parallel = context.enabled_option("enable-expert-parallel")
    backend = context.value("moe-backend").replace("-", "_")
    severity = _rate(context, Version("0.20.2"))
    if option is not None and severity and backend == "deep_gemm_mega_moe" and parallel is None:
        yield RuleFinding(
            subject=option.flag,
            expected="enable-expert-parallel: true as well",
            seen="deep_gemm_mega_moe without expert parallelism",
            where=option.where,
            fix="write in vllm_args: enable-expert-parallel: true, or remove moe-backend",
            severity=severity,
        )


def _check_custom_ops(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("compilation-config")
    config = parse_json_object(option.value if option else None)
    names = config.get("custom_ops")
    if option is None or not isinstance(names, list):
        return
    wrong = [name for name in map(str, names) if not _is_custom_op(name)]
    both = [name for name in map(str, names) if name in ("all", "none")]
    if not wrong and len(both) < 2:
        return
    yield RuleFinding(
        subject="custom_ops in compilation-config",
        expected="one of all and none, and names with + or -",
        seen=", ".join(wrong or both),
        where=option.where,
        fix='write, for example: custom_ops: ["none", "+rms_norm"]',
        severity=Severity.WARNING if wrong else Severity.ERROR,
    )


def _is_custom_op(name: str) -> bool:
    return name in ("all", "none") or (name[:1] in ("+", "-") and len(name) > 1)


def _check_context_shares(context: RuleContext) -> Iterator[RuleFinding]:
    option: VllmOption | None = context.option("prefill-context-parallel-size")
    count = read_count(option)
    if option is not None and count is not None and count != 1:
        yield RuleFinding(
            subject=option.flag,
            expected="1: sparkfleet starts --tp x --pp ranks, and this option multiplies them",
            seen=str(option.value),
            where=option.where,
            fix="remove prefill-context-parallel-size",
        )


RULES = (
    Rule(
        id="needs",
        why="vLLM exits when it reads its options: one of them works only with another",
        source="vLLM's config and cli_args.py, 0.11 to 0.32, as each finding says",
        find=_check_needs,
    ),
    Rule(
        id="silenced",
        why="vLLM exits when it reads its options: metrics of requests need its statistics",
        source="vLLM's entrypoints cli_args.py, 0.25 to 0.31",
        find=_check_silenced,
    ),
    Rule(
        id="overlap",
        why="vLLM exits with 'Microbatching currently only supports ...'",
        source="vLLM's config/vllm.py, 0.11 to 0.32",
        find=_check_overlap,
    ),
    Rule(
        id="partial_prefills",
        why="vLLM exits with 'Concurrent Partial Prefill is not supported'",
        source="vLLM's engine/arg_utils.py, _check_feature_supported, 0.10 to 0.26; "
        "vllm-project/vllm#39737",
        find=_check_partial_prefills,
    ),
    Rule(
        id="async_start",
        why="vLLM exits when it reads its options: they rule out asynchronous scheduling",
        source="vLLM's config/vllm.py and v1/executor, 0.11 to 0.32",
        find=_check_async_start,
    ),
    Rule(
        id="conversion",
        why="vLLM stops while it starts: 'pooler_config is not None'",
        source="vLLM's config/model.py, _get_runner_type, 0.11 to 0.21; vllm-project/vllm#42480",
        find=_check_conversion,
    ),
    Rule(
        id="long_prefills",
        why="vLLM exits when it reads its options: long_prefill_token_threshold is too large",
        source="vLLM's config/scheduler.py, verify_max_model_len, 0.27 to 0.32",
        find=_check_long_prefills,
    ),
    Rule(
        id="mega_experts",
        why="vLLM stops while it loads: 'MegaMoE currently requires expert parallel'",
        source="vLLM's models/deepseek_v4, 0.20 to 0.31; vllm-project/vllm#55914",
        find=_check_mega_experts,
    ),
    Rule(
        id="custom_ops",
        why="vLLM exits when it reads its options: the operators are switched on and off at once",
        source="vLLM's config/compilation.py, 0.11 to 0.31",
        find=_check_custom_ops,
    ),
    Rule(
        id="context_shares",
        why="vLLM waits for ranks, or GPUs, that do not exist",
        source="vLLM's config/parallel.py, 0.12 to 0.31; vllm-project/vllm#47846",
        find=_check_context_shares,
    ),
)

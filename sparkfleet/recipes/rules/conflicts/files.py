"""Options against the files of the model and of its adapters; silent where those are not known."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatch

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.bounds import read_count
from sparkfleet.recipes.rules.conflicts.combinations import LORA_RANKS, RANK
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import AdapterFacts, RuleContext
from sparkfleet.vllm.lora_modules import parse_lora_modules
from sparkfleet.vllm.releases import parse_version

CONFIG, PARAMS = "config.json", "params.json"
CONSOLIDATED = "consolidated*.safetensors"
WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf")
SAFETENSORS = ("safetensors", "fastsafetensors", "instanttensor")  # formats that read only these
MISTRAL_TOKENIZERS = ("tekken*.json", "tokenizer.model*", "tokenizer.mm.model*")
DEFAULT_RANK = 16  # of max-lora-rank
SAVED = ("classifier", "score")  # layers that an adapter may hold whole
GGUF_UNTIL = Version("0.23.0")  # since then vllm-project/vllm-gguf-plugin
GGUF_NAMES_SINCE = Version("0.12.0")
GGUF_PREFIXES_SINCE = Version("0.20.0")
QUANTIZED = re.compile(r"\w[\w.-]*/\w[\w.-]*:([A-Za-z0-9_+-]+)")  # ORG/NAME:Q4_K_M
STANDARD = re.compile(r"(I?Q\d|BF?16|F?16|F32|TQ\d|MXFP4)[A-Z0-9_]*")
OFFICIAL = "vllm/vllm-openai"


def _check_formats(context: RuleContext) -> Iterator[RuleFinding]:
    files = context.facts.files
    if files is None or not _has_any(files, WEIGHTS):  # of a config alone nothing is missing
        return
    for name, value, patterns in (
        ("config-format", "mistral", (PARAMS,)),
        ("config-format", "hf", (CONFIG,)),
        ("load-format", "mistral", (CONSOLIDATED,)),
        *(("load-format", kind, ("*.safetensors",)) for kind in SAFETENSORS),
        ("tokenizer-mode", "mistral", MISTRAL_TOKENIZERS),
    ):
        option = context.option(name)
        if option is None or context.value(name) != value or _has_any(files, patterns):
            continue
        if name == "tokenizer-mode" and context.option("tokenizer") is not None:
            continue
        yield RuleFinding(
            subject=option.flag,
            expected=f"a model with {' or '.join(patterns)}, or the option not to be set",
            seen=f"{value}, and no such file",
            where=option.where,
            fix=f"remove {name}; a model in the format of transformers needs none of the three "
            "options of Mistral's",
        )


def _has_any(files: Collection[str], patterns: Collection[str]) -> bool:
    return any(fnmatch(name, pattern) for name in files for pattern in patterns)


def _check_adapters(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("lora-modules")
    limit = read_count(context.option(RANK)) or DEFAULT_RANK
    for name, path in parse_lora_modules(option.value if option else None).items():
        adapter = context.facts.adapters.get(path)
        for expected, seen, fix in _find_adapter_problems(adapter, limit):
            yield RuleFinding(
                subject=f"the adapter {name}",
                expected=expected,
                seen=f"{seen} in its adapter_config.json",
                where=context.at("lora-modules"),
                fix=fix,
            )


def _find_adapter_problems(
    adapter: AdapterFacts | None, limit: int
) -> Iterator[tuple[str, str, str]]:
    if adapter is None:
        return
    other = "use another adapter, or merge this one into the model"
    if adapter.rank is not None and adapter.rank > limit:
        larger = next((rank for rank in LORA_RANKS if rank >= adapter.rank), None)
        fix = f"write in vllm_args: {RANK}: {larger}" if larger else other
        yield f"a rank of {limit} at most ({RANK})", f"a rank of {adapter.rank}", fix
    if adapter.dora:
        yield "an adapter without DoRA", "use_dora", other
    if adapter.bias not in ("", "none"):
        yield "an adapter without biases", f"bias: {adapter.bias}", other
    whole = [name for name in adapter.saved if name not in SAVED]
    if whole:
        yield "no layers that are saved whole", f"modules_to_save: {', '.join(whole)}", other


def _check_gguf(context: RuleContext) -> Iterator[RuleFinding]:
    name = context.settings.text("vllm_model")
    version = parse_version(context.version)
    quantized = QUANTIZED.fullmatch(name)
    if version is None or not (quantized or name.lower().endswith(".gguf")):
        return
    if version > GGUF_UNTIL:
        expected = "a model in safetensors: GGUF left vLLM with 0.24 for a plugin"
        fix = "use the model in another format; or add the plugin: engine_pip: [vllm-gguf-plugin]"
        if _has_gguf_plugin(context):
            return
    elif quantized and version < GGUF_NAMES_SINCE:
        expected = "the path of a .gguf file: names such as ORG/NAME:Q4_K_M came with vLLM 0.12"
        fix = "name the file, or run a later vLLM"
    elif quantized and version < GGUF_PREFIXES_SINCE and not STANDARD.fullmatch(quantized[1]):
        expected = "a quantization such as Q4_K_M: others came with vLLM 0.20"
        fix = "use another file of that repository, or run a later vLLM"
    else:
        return
    sure = version <= GGUF_UNTIL or context.facts.packages or context.image.repository == OFFICIAL
    yield RuleFinding(
        subject="vllm_model",
        expected=expected,
        seen=f"{name} with vLLM {context.version}",
        where=context.at("vllm_model"),
        fix=fix,
        severity=Severity.ERROR if sure and not version.is_prerelease else Severity.WARNING,
    )


def _has_gguf_plugin(context: RuleContext) -> bool:
    added = context.settings.value("engine_pip") or ()
    return any("gguf" in str(name).lower() for name in (*added, *_list_plugins(context)))


def _list_plugins(context: RuleContext) -> Iterator[str]:
    for name in context.facts.packages:
        if "gguf" in name.lower() and "plugin" in name.lower():
            yield name


RULES = (
    Rule(
        id="model_files",
        why="vLLM exits when it reads the model: the files that the option asks for are missing",
        source="vLLM's transformers_utils/config.py, model_loader/default_loader.py and "
        "tokenizers, 0.10 to 0.32; vllm-project/vllm#17132, vllm-project/vllm#17210",
        find=_check_formats,
    ),
    Rule(
        id="adapter",
        why="vLLM stops at the end of a start, when it loads the adapter",
        source="vLLM's lora/peft_helper.py, validate_legal, 0.10 to 0.32; "
        "vllm-project/vllm#2847, gpustack/gpustack#5438",
        find=_check_adapters,
    ),
    Rule(
        id="gguf",
        why="vLLM exits when it reads the model: it does not recognize the name as a GGUF file",
        source="vLLM's transformers_utils/gguf_utils.py, 0.12 to 0.23; vllm-project/vllm#29137, "
        "vllm-project/vllm#39471, vllm-project/vllm-gguf-plugin#25",
        find=_check_gguf,
    ),
)

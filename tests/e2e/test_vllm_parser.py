"""Command lines as vLLM's own parser reads them, with the lab's engine, against the one reader.

What the parser refuses, a rule has to report.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.lab.engine import install
from sparkfleet.lab.engine.kinds import CPU
from sparkfleet.model import Severity
from sparkfleet.vllm.arguments import format_vllm_args
from sparkfleet.vllm.numbers import is_auto_length
from sparkfleet.vllm.option_types import convert_option_integer
from sparkfleet.vllm.options import parse_json_object, read_vllm_options
from tests.judged import Recipes

CHECKOUT = Path(__file__).parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ASK = """
import argparse, contextlib, io, json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = make_arg_parser(FlexibleArgumentParser())
for action in parser._actions:
    action.default = argparse.SUPPRESS
    if "parse_dataclass" in getattr(action.type, "__qualname__", ""):
        action.type = json.loads

def read(words):
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            found = vars(parser.parse_args(["org/model", *words]))
    except (SystemExit, Exception):  # whatever it raises is a refusal
        return None
    return {name.replace("_", "-"): value for name, value in found.items()
            if value is not None and name != "model_tag"}

def write_adapter(one):
    return f"{one.name}={one.path}"

print(json.dumps([read(words) for words in json.loads(sys.argv[1])], default=write_adapter))
"""
GRAPHS = "compilation_config.cudagraph_capture_sizes"
MTP = {"method": "mtp", "num_speculative_tokens": 2}
RAW = [  # words of vllm_raw_args
    *(["-O3"], ["-O", "3"], ["-O=3"], ["-O.mode", "3"], ["-O"]),
    *(["-O", '{"mode": 3}'],),
    *(["-cc.pass_config.b", "2", "-cc.pass_config", '{"a": 1}'],),
    *(["-cc.ops", '["a"]', "-cc.ops", '["b"]'], ["-cc.ops+=a,b", "-cc.ops", '["c"]']),
    *(["-cc.mode", "1", "--compilation-config.custom_ops+", "x"],),
    *(["-cc.a", "1", "--compilation-config.b", "2", "-cc.c", "3"],),
    *(["--compilation_config.mode", "1", "--compilation-config.x", "2"],),
    *(["--hf-overrides.a.b", "64k", "--hf-overrides.a.c=x"], ["-cc.mode="], ["-cc.mode"]),
    *(["-sc", '{"a": 1}', "-sc.b", "1"], ["-cc.mode", "1", "2"], [f"--{GRAPHS}", "1", "2", "4"]),
    *(["-as", "2"], ["-s", '{"a": 1}'], ["-e"], ["-d", "2"], ["-a", "2"], ["-x"], ["-seed", "1"]),
    *(["--sc", '{"a": 1}'], ["--cc.mode", "1"], ["--no-ep"], ["--ep"], ["-no-ep"]),
    *(["-ep"], ["--enable-expert"], ["-max-model-len", "4096"], ["-no-enable-prefix-caching"]),
    *(["--no-enable-prefix-caching"], ["--no-enable-pre"], ["--no_enable_prefix_caching"]),
    *(["--no-no-enable-prefix-caching"], ["--no-disable-log-stats"], ["--disable-log-stats"]),
    *(["--max-model-len=AUTO"], ["--max-model-len", " auto "], ["--max-model-len", "-1"]),
    *(["--max-model-len", "64K"], ["--max-model-len", "25.6k"], ["--max-model-len", "25.6K"]),
    *(["--max-model", "1"], ["--mode", "x"], ["--max-model-len", "None"]),
    *(["-q", "None"], ["-q", "fp8", "--quantization="], ["-qfp8"], ["-q=fp8"]),
    *(["--kv-cache-memory-bytes", "None"], ["--kv-cache-memory-bytes", "6G"]),
    *(["--kv-cache-memory-bytes", "6GiB"], ["--kv-cache-memory-bytes", "1.5g"]),
    *(["--max-num-seqs", "None"], ["--max-num-seqs", "1_0"], ["--max-num-seqs", " 16 "]),
    *(["--max-num-seqs", "16K"], ["--max-num-seqs", "16.5"], ["--max-num-seqs", "+4"]),
    *(["--gpu-memory-utilization", "None"], ["--gpu-memory-utilization=.8"]),
    *(["--max-num-seqs=16", "stray"], ["stray", "--max-num-seqs=16"], ["--max-num-seqs"]),
    *(["--enforce-eager", "true"], ["--enforce-eager=true"], ["--dtype", "--enforce-eager"]),
    *(["--enforce-eager", "--no-enforce-eager"], ["--seed", "1", "--seed", "-2"]),
    *(["--middleware", "a.A", "--middleware=b.B"], ["--middleware", "a", "b"]),
    *(["--lora-modules", "a=/a", "b=/b"], ["--cudagraph-capture-sizes", "1", "2"]),
    *(["--cudagraph-capture-sizes"], ["--allowed-origins", '["*"]']),
    *(["--spec-method", "mtp", "--spec-tokens", "9"], ["--spec-tokens", "many"]),
    *(["--compilation-config", '{"a": 1}', "-cc", '{"b": 1}'],),
    *(["-cc.a", "-1"], ["--limit-mm-per-prompt.image", "2"], ["--limit-mm-per-prompt", "image=4"]),
    *(["--kv-cache-dtype=fp8", "--kv_cache_dtype", "auto"], ["--O3"], ["-h"]),
    *(["--help=all"], ["--mm-processor-device", "x"], ["--mm-processor-device=cpu"]),
    *(["--enable-lora=1"], ["--cudagraph-capture-sizes", "1,2"], ["--spec-tokens", "3k"]),
    *(["--hf-overrides", "None"],),
    *(["--lora-modules=a=/a", "b=/b"], ["--max-num-batched-tokens", "-5"], ["--no-dtype"]),
    *(["--cudagraph-capture-sizes=1", "2"], ["--max-lora-rank", "17"], ["--runner", "None"]),
    *(["--unknown-option", "1"], ["--safetensors-load-strategy", "None"], ["--tp-x"]),
    *(["--dtype auto"], ["--chat-template", "- a b"], ["--seed=1", "--", "x"]),
]  # fmt: skip
ARGS: list[dict[str, Any]] = [  # vllm_args
    {GRAPHS: [1, 2, 4]},
    {"cc.custom_ops+": ["none", "+x"], "cc.mode": 3},
    {"-ep": False},
    {"-ep": True, "no-enable-prefix-caching": False},
    {"-max-model-len": 4096},
    {"O": {"mode": 3}},
    {"-O.mode": 3},
    {"O": "3"},
    {"sc": MTP},
    {"speculative-config": MTP, "speculative_config.num_speculative_tokens": 3},
    {"quantization": "None", "speculative-config": ""},
    {"max-model-len": "AUTO"},
    {"max-model-len": True},
    {"kv-cache-dtype": ["fp8", "auto"]},
    {"max-num-seqs": [16, 32]},
    {"max-num-seqs": 16.5},
    {"seed": -1, "enforce-eager": True, "enable-chunked-prefill": False},
    {"middleware": ["a", "b"]},
    {"middleware": {"repeat": ["a", "b"]}},
    {"cudagraph-capture-sizes": []},
    {"cudagraph-capture-sizes": [1, 2]},
    {"allowed-origins": ["*"], "disable-log-stats": False},
    {"hf-overrides": {"rope_theta": 1e6}, "additional-config": {"a": [1]}},
    {"enforce-eager": "true"},
    {"enforce-eager": 1},
    {"seed": {"a": 1}},
    {"compilation-config": [1, 2]},
    {"ignore-patterns": ["a", "--b"]},
    {"no-max-model-len": True},
    {"no-no-enforce-eager": True},
    {"cc": {"mode": 3}, "cc.custom_ops+": ["+x"]},
    {"s": {"a": 1}},
    {"max-num-seqs": [4]},
    {"gpu-memory-utilization": 0.85, "max-num-batched-tokens": "16K", "block-size": "16"},
    {"disable-log-stats": True, "seed": "7"},
]
GIVEN: list[tuple[dict[str, Any], list[str]]] = [({}, words) for words in RAW] + [
    (args, []) for args in ARGS
]
RULES = {  # of what vLLM's parser refuses
    *("count", "dash", "first_word", "flag", "json", "level_word", "negation", "number"),
    *("numbers", "option", "word", "value", "help", "processor_device"),
}


@pytest.fixture(scope="module")
def python() -> str:
    """Return the Python of the lab's engine."""
    install.install_engine(print)
    return str(CPU.venv_path() / "bin/python")


@pytest.fixture(scope="module")
def answer(python: str) -> list[dict[str, Any] | None]:
    lines = [[*format_vllm_args(args), *words] for args, words in GIVEN]
    command = [python, "-c", ASK, json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[dict[str, Any] | None] = json.loads(done.stdout.splitlines()[-1])
    return found


def _convert(name: str, value: Any, taken: Any) -> Any:
    """Return a value of the reader in the type of `taken`, the one that vLLM's parser has."""
    if isinstance(taken, dict):
        return parse_json_object(value)
    if isinstance(taken, list):
        items = json.loads(value) if isinstance(value, str) and value[:1] == "[" else value
        items = items if isinstance(items, list) else [items]
        return [type(one)(item) for one, item in zip(taken, items, strict=True)]
    if isinstance(taken, bool) or value is None:
        return value
    if isinstance(taken, int):
        longest = name == "max-model-len" and is_auto_length(value)
        return -1 if longest else convert_option_integer(name, value)
    return float(value) if isinstance(taken, float) else str(value)


@pytest.mark.parametrize("index", range(len(GIVEN)), ids=lambda index: str(GIVEN[index]))
def test_the_reader_reads_what_vllm_reads_or_a_rule_refuses_it(
    index: int, answer: list[dict[str, Any] | None], tmp_path: Path
) -> None:
    args, words = GIVEN[index]
    taken = answer[index]
    recipe = {"vllm_model": "org/model", "vllm_args": args, "vllm_raw_args": words}
    recipe["engine_image"] = "vllm/vllm-openai:v0.32.0-cu130"
    found = Recipes(tmp_path).judged(recipe)
    errors = {one.rule.id for one in found if one.severity is Severity.ERROR} & RULES
    assert (taken is None) == bool(errors), (taken, errors)
    if taken is not None:
        given = read_vllm_options(args, words).by_name()
        values = {name: given[name] for name in given if name in taken or given[name] is not False}
        assert {name: _convert(name, values[name], taken.get(name)) for name in values} == taken


def test_the_forms_of_options_are_those_of_vllms_parser(python: str) -> None:
    done = subprocess.run(
        [python, "benchmarks/vllm_forms.py"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    table = CHECKOUT / "sparkfleet/vllm/tables/forms.txt"
    assert done.stdout[done.stdout.index("# How many") :] == table.read_text()

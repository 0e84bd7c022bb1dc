"""The tables of vLLM's releases, and the program that makes them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.recipes.rules.renamed import OPTIONS, VARIABLES
from sparkfleet.vllm.option_types import load_option_types
from sparkfleet.vllm.releases import load_release_table, parse_version

PROBE = Path(__file__).parents[3] / "sparkfleet" / "onhost" / "deployment" / "probe.py"
ENGINE = """
class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        group = parser.add_argument_group(title="Model")
        group.add_argument("--max-model-len", "-m", **kwargs["max_model_len"])
        for name in ("--quantization", "--seed"):
            group.add_argument(name, "-q", help="as --no-option and nothing else")
"""
SERVER = """
class BaseFrontendArgs:
    chat_template: str | None = None
    '''A text.'''
class FrontendArgs(BaseFrontendArgs):
    enable_auto_tool_choice: bool = False
class OtherArgs:
    not_one: int = 1
def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--headless", action="store_true")
"""
ENVS = """
environment_variables = {
    "VLLM_USE_V2_MODEL_RUNNER": lambda: 1, "CUDA_HOME": lambda: 2, **more
}
"""


def _probe(tmp_path: Path, files: dict[str, str]) -> dict[str, Any]:
    for name, text in files.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, PROBE],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


VALUES = {
    "v1/attention/backends/registry.py": """
class AttentionBackendEnum(Enum, metaclass=Meta):
    FLASH_ATTN = "vllm.FlashAttention"
    CUSTOM = None
    def get_class(self):
        name = "x"
""",
    "config/cache.py": 'CacheDType = Literal["auto", "fp8"]\nOther = Literal["none"]\n',
    "tool_parsers/__init__.py": "_TOOL_PARSERS_TO_REGISTER = {'hermes': ('file', 'Class')}\n",
    "tool_parsers/old.py": """
@ToolParserManager.register_module(["llama3_json", "llama4_json"])
class Llama: pass
""",
    "reasoning/new.py": "ReasoningParserManager.register_module(name='qwen3', module=Qwen)\n",
}


def test_values_of_options_are_found_in_the_source_of_vllm(tmp_path: Path) -> None:
    assert _probe(tmp_path, VALUES)["values"] == {
        "attention-backend": ["CUSTOM", "FLASH_ATTN"],
        "kv-cache-dtype": ["auto", "fp8"],
        "reasoning-parser": ["qwen3"],
        "tool-call-parser": ["hermes", "llama3_json", "llama4_json"],
    }


TYPES = {
    "engine/arg_utils.py": """
human_readable_int_args = {"max_num_batched_tokens"}
class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        model_kwargs = get_kwargs(ModelConfig)
        seed_kwargs = model_kwargs["seed"]
        parser.add_argument("--seed", **seed_kwargs)
        parser.add_argument("--dtype", **model_kwargs["dtype"])
        parser.add_argument("--load-format", **model_kwargs["load"])
        parser.add_argument("--runner", **model_kwargs["runner"])
        parser.add_argument("--cache", "-c", **model_kwargs["cache"])
        parser.add_argument("--limit", **model_kwargs["limit"])
        parser.add_argument("--extra", **model_kwargs["extra"])
        parser.add_argument("--names", **model_kwargs["names"])
        parser.add_argument("--eager", **model_kwargs["eager"])
        parser.add_argument("--share", **get_kwargs(CacheConfig)["share"])
        parser.add_argument(
            "--max-num-batched-tokens", **{**model_kwargs["tokens"], "default": None}
        )
        parser.add_argument("--timeout", type=int, default=0)
        parser.add_argument("--headless", action="store_true")
        parser.add_argument("--level", choices=["low", "high"])
        parser.add_argument("--style", choices=get_args(Style))
        parser.add_argument("--unknown", **other["x"])
""",
    "config/model.py": """
Kind = Literal["generate", "draft"]
Runner = Literal["auto", Kind]
Style: TypeAlias = Literal["plain"]
class Limits(dict[str, int]): ...
@config
class ModelConfig:
    seed: int = 0
    dtype: Literal["auto", "half"] | torch.dtype = "auto"
    load: str | Literal["safe"] = "safe"
    runner: Runner | None = None
    cache: "CacheConfig" = None
    limit: Optional[Limits] = None
    extra: dict[str, Any] | str | None = None
    names: list[str] | None = None
    eager: bool = False
    tokens: Annotated[int, "positive"] | None = None
@config
class CacheConfig:
    share: float = 0.9
""",
    "entrypoints/utils.py": 'Format = Literal["auto", "openai"]',
    "entrypoints/openai/cli_args.py": """
from vllm.entrypoints.utils import Format
class FrontendArgs:
    port: int = 8000
    content_format: Format = "auto"
    template_kwargs: dict[str, Any] | None = None
def make_arg_parser(parser):
    parser.add_argument("--servers", type=int)
""",
}


def test_types_of_options_are_found_in_the_annotations_of_vllm(tmp_path: Path) -> None:
    found = _probe(tmp_path, TYPES)
    assert found["types"] == {
        "cache": "json",
        "eager": "flag",
        "extra": "json-or-text",
        "headless": "flag",
        "limit": "json",
        "max-num-batched-tokens": "size",
        "port": "int",
        "seed": "int",
        "servers": "int",
        "share": "number",
        "template-kwargs": "json",
        "timeout": "int",
    }
    assert found["values"] == {
        "content-format": ["auto", "openai"],
        "dtype": ["auto", "half"],
        "level": ["high", "low"],
        "runner": ["auto", "draft", "generate"],
        "style": ["plain"],
    }


def test_the_table_of_types_is_of_options_that_its_release_has() -> None:
    table = load_option_types()
    options = load_release_table("options").names(table.release)
    assert {*table.types, *table.values} <= options
    kinds = {"int", "size", "number", "json", "json-or-text", "flag"}
    assert set(table.types.values()) == kinds
    assert min(map(len, table.values.values())) > 0


@pytest.mark.parametrize("folder", ["openai", "launchers", "common"])  # where releases have it
def test_options_and_variables_are_found_in_the_source_of_vllm(tmp_path: Path, folder: str) -> None:
    files = {
        "engine/arg_utils.py": ENGINE,
        f"entrypoints/{folder}/cli_args.py": SERVER,
        "envs.py": ENVS,
    }
    found = _probe(tmp_path, files)
    assert found["options"] == [
        "chat-template",
        "enable-auto-tool-choice",
        "headless",
        "max-model-len",
        "quantization",
        "seed",
    ]
    assert found["variables"] == ["VLLM_USE_V2_MODEL_RUNNER"]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"engine/arg_utils.py": ENGINE},
        {"entrypoints/openai/cli_args.py": SERVER},
        {"engine/arg_utils.py": ENGINE, "entrypoints/openai/cli_args.py": "class Renamed: ..."},
    ],
)
def test_a_half_of_the_options_is_not_taken_for_all(tmp_path: Path, files: dict[str, str]) -> None:
    assert _probe(tmp_path, files)["options"] == []


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("0.19.0", True),
        ("0.32.0+cpu", True),
        ("0.19.1rc1.dev31+ga88ce94bb", True),
        ("0.10.1", False),
        ("0.33.1", False),
        ("", False),
        ("dev", False),
    ],
)
def test_a_version_is_covered_up_to_the_last_release(version: str, *, known: bool) -> None:
    assert load_release_table("options").covers(version) is known


def test_options_that_differ_between_two_releases_are_unknown_in_between() -> None:
    options = load_release_table("options")
    assert options.has("swap-space", "0.17.1") is True
    assert options.has("swap-space", "0.18.1") is False
    assert options.has("swap-space", "0.18.0") is None
    assert options.has("quantization", "0.18.0") is True
    assert options.has("nobodys", "0.18.0") is False


def test_what_came_back_has_two_spans() -> None:
    text = load_release_table("variables").history("VLLM_ROCM_USE_AITER_FP4_ASM_GEMM")
    assert text.count("in vLLM") == 2


@pytest.mark.parametrize("name", ["options", "values", "keys", "variables", "architectures"])
def test_every_row_of_a_table_lies_in_its_releases(name: str) -> None:
    rows = load_release_table(name)
    last = len(rows.releases) - 1
    assert list(rows.releases) == sorted(rows.releases)
    assert len(rows.spans) > 200
    for spans in rows.spans.values():
        assert all(0 <= first <= end <= last for first, end in spans)


def test_options_of_the_oldest_release_may_be_older() -> None:
    architectures = load_release_table("architectures")
    assert architectures.first("LlamaForCausalLM") is None
    assert str(architectures.first("Gemma4ForConditionalGeneration")) == "0.19.0"


@pytest.mark.parametrize(("kind", "replaced"), [("options", OPTIONS), ("variables", VARIABLES)])
def test_a_replaced_option_is_absent_and_its_replacement_present(
    kind: str, replaced: Mapping[str, str]
) -> None:
    options = load_release_table("options")
    newest = str(load_release_table("options").releases[-1])
    for name, text in replaced.items():
        assert load_release_table(kind).history(name)
        assert load_release_table(kind).has(name, newest) is False
        result = re.findall(r"([a-z]+(?:-[a-z]+)+)(?=: | is true)", text)
        assert result
        assert all(options.has(option, newest) for option in result)


def test_the_local_part_of_a_version_is_ignored() -> None:
    assert str(parse_version("0.19.1rc1.dev31+ga88ce94bb")) == "0.19.1rc1.dev31"

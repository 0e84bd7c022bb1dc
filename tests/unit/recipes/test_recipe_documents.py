"""Every recipe against the command that its document prints; each difference has its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.vllm.owned_options import OWNED_OPTIONS
from tests.documents import SEEDS, Command, command

GUIDE = "5-dgx-vllm-guide.md"
RESEARCH = "1-gemma4-on-spark-research.md"
POST = "2-gemma4-26b-nvfp4-52-toks.md"
DUAL = "4-gemma4-31b-fp8-dual-spark-tp2.md"
SINGLE = "3-gemma4-31b-nvfp4-single-spark.md"
OWN_ENV = {
    "HF_HOME": "weights_dir is HF_HOME, mounted at /models",
    "HF_TOKEN": "weights are staged from here; no container asks the Hub",
    "VLLM_CACHE_ROOT": "kept in engine_cache_dir for every image",
}
OWN_ARGS = {
    "tp",
    "api-key",
    *OWNED_OPTIONS,
}  # set by sparkfleet, from --tp, vllm_port and the inventory
RULE = "the guide's rule for ModelOpt checkpoints, section 6, which is of a later date"
MODELOPT = {"quantization": ("modelopt", RULE)}


@dataclass(frozen=True)
class Row:
    """A recipe, where its command is printed, and what is another with us, each with a reason."""

    recipe: str
    document: str
    section: str
    block: int = 0
    base: tuple[str, str, int] | None = None  # the command that a fragment adds to
    args: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    model: tuple[str, str] | None = None


ROWS = (
    Row("qwen3.6-35b-a3b-nvfp4", GUIDE, "7.1.1"),
    Row("qwen3.6-27b-nvfp4", GUIDE, "7.1.2"),
    Row("qwen3.6-27b-nvfp4-1m", GUIDE, "7.1.2", 1, base=(GUIDE, "7.1.2", 0)),
    Row("qwen3.5-35b-a3b", GUIDE, "7.1.3"),
    Row("gemma4-31b-nvfp4", GUIDE, "7.2.1"),
    Row("gemma4-31b-nvfp4-path-a", RESEARCH, "Path A", args=MODELOPT),
    Row(
        "gemma4-31b-nvfp4-path-a",
        RESEARCH,
        "For Beast",
        args={
            **MODELOPT,
            "max-model-len": ("16384", "section 2, path A; section 9 contradicts it"),
        },
    ),
    Row(
        "gemma4-31b-nvfp4-eugr",
        RESEARCH,
        "Path B",
        1,
        args=MODELOPT,
    ),
    Row("gemma4-31b-nvfp4-single-spark", SINGLE, "Reproduce"),
    Row("gemma4-26b-a4b-nvfp4", GUIDE, "7.2.2"),
    Row(
        "gemma4-26b-a4b-nvfp4-community",
        POST,
        "Deployment",
        model=("/models/gemma4", "staged from the Hub and not from a folder by hand"),
    ),
    Row("gemma4-26b-a4b-fp8", RESEARCH, "Path A", 1),
    Row("gemma4-26b-a4b-fp8-eugr", RESEARCH, "Path B"),
    Row(
        "gemma4-12b-coder",
        GUIDE,
        "7.2.3",
        model=("/model", "staged from the Hub and not from a folder by hand"),
    ),
    Row(
        "gemma4-12b-coder-mtp",
        GUIDE,
        "7.2.3",
        1,
        base=(GUIDE, "7.2.3", 0),
        model=("/model", "staged from the Hub and not from a folder by hand"),
        args={
            "speculative-config": (
                {"method": "mtp", "model": "@MODEL@/assistant", "num_speculative_tokens": 3},
                "the model's folder is where it was staged",
            )
        },
    ),
    Row("diffusiongemma-26b-a4b-nvfp4", GUIDE, "7.2.4"),
    Row(
        "nemotron-3-nano-30b-a3b-nvfp4",
        GUIDE,
        "7.3.1",
        args={
            "reasoning-parser-plugin": (
                "nano_v3_reasoning_parser.py",
                "a name of weights_files; rendered as /models/nano_v3_reasoning_parser.py",
            )
        },
    ),
    Row("nemotron-3-super-120b-a12b-nvfp4", GUIDE, "7.3.2"),
    Row("nemotron-3-super-120b-a12b-nvfp4-mtp", GUIDE, "13.2"),
    Row("mistral-small-4-119b-nvfp4", GUIDE, "7.4.1"),
    Row("gpt-oss-120b", GUIDE, "7.4.2"),
    Row("llama-3.3-70b-nvfp4", GUIDE, "7.4.3"),
    Row("phi-4-multimodal-nvfp4", GUIDE, "7.4.4"),
    Row("laguna-xs.2-dflash", GUIDE, "13.4"),
)
IDS = [f"{row.recipe} {row.section}" for row in ROWS]


def _documented(row: Row) -> Command:
    found = command(row.document, row.section, row.block)
    if row.base is None:
        return found
    whole = command(*row.base)
    whole.args |= found.args
    whole.env |= found.env
    return whole


def _texts(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a command line has them: text, true, or JSON."""
    return {
        name: value if value is True or isinstance(value, dict) else str(value)
        for name, value in mapping.items()
    }


def _var(recipe: Recipe, name: str, default: Any = None) -> Any:
    return recipe.vars[name].data if name in recipe.vars else default


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_recipe_has_the_options_that_its_document_prints(row: Row) -> None:
    printed = {
        name: _number(value)
        for name, value in _documented(row).args.items()
        if name not in OWN_ARGS
    }
    printed |= {name: value for name, (value, _) in row.args.items()}
    ours = {name: _number(value) for name, value in _texts(_args(row)).items()}
    assert ours == {name: _number(value) for name, value in printed.items()}


def _args(row: Row) -> dict[str, Any]:
    args: dict[str, Any] = _var(load_recipe(row.recipe), "vllm_args", {})
    return args


def _number(value: Any) -> Any:
    """Return a number as one, so that 0.70 is 0.7."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_recipe_has_the_environment_that_its_document_prints(row: Row) -> None:
    printed = {name: value for name, value in _documented(row).env.items() if name not in OWN_ENV}
    assert _texts(_var(load_recipe(row.recipe), "vllm_env", {})) == printed


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_recipe_has_the_model_the_image_the_name_and_the_port(row: Row) -> None:
    recipe = load_recipe(row.recipe)
    printed = _documented(row)
    wanted = (
        row.model[0] if row.model else _var(recipe, "vllm_model"),
        _var(recipe, "engine_image"),
    )
    assert (printed.model, printed.image) == wanted
    assert printed.args.get("served-model-name") == _var(recipe, "vllm_served_name")
    assert printed.port in (None, _var(recipe, "vllm_port", 8000))
    assert printed.args.get("tensor-parallel-size", "1") == "1"
    assert printed.pip == _var(recipe, "engine_pip", [])


def test_the_mounted_patch_is_the_one_that_the_document_mounts() -> None:
    patch = command(POST, "Deployment").mounts[1]
    (mount,) = _var(load_recipe("gemma4-26b-a4b-nvfp4-community"), "engine_mounts")
    assert patch.partition("/gemma4_patched.py:")[2] == mount.split(":")[1]


def test_the_expected_log_lines_are_those_of_the_document() -> None:
    """Figures that another Spark need not have are shown, not expected."""
    text = (SEEDS / POST).read_text()
    recipe = load_recipe("gemma4-26b-a4b-nvfp4-community")
    assert len(recipe.log.expect) == 2
    assert all(line in text.splitlines() for line in recipe.log.expect)
    assert "GPU KV cache size: 714,768 tokens" in " ".join(recipe.advice)


def test_the_dflash_image_gets_the_variables_of_the_document() -> None:
    printed = command(GUIDE, "13.3")
    recipe = load_recipe("dflash-qwen3.5-27b")
    ours = _texts(_var(recipe, "vllm_env"))
    assert printed.image == _var(recipe, "engine_image")
    assert printed.env.pop("MODEL_PATH") == "/models/target"  # a folder mounted by hand
    assert ours.pop("MODEL_PATH") == "@MODEL@"
    assert printed.env.pop("VLLM_API_KEY") == "$VLLM_API_KEY"
    assert ours.pop("VLLM_API_KEY") == "{{ lookup('env', 'VLLM_API_KEY') }}"
    printed.env.pop("HF_TOKEN")  # the draft is staged from here
    assert ours == printed.env
    assert ours["SERVED_MODEL_NAME"] == _var(recipe, "vllm_served_name")


def test_the_dense_gemma_in_fp8_has_what_its_document_sets_up() -> None:
    text = " ".join((SEEDS / DUAL).read_text().split())
    recipe = load_recipe("gemma4-31b-fp8")
    args = _texts(_var(recipe, "vllm_args"))
    assert (
        f"--quantization {args['quantization']} --kv-cache-dtype {args['kv-cache-dtype']}" in text
    )
    assert f"Context: {int(args['max-model-len']):,} tokens" in text
    assert f"GPU mem utilization: {args['gpu-memory-utilization']}" in text
    for words in (_var(recipe, "vllm_model"), _var(recipe, "engine_image")):
        assert words in text
    assert [f"{name}={value}" in text for name, value in _var(recipe, "vllm_env").items()] == [True]
    assert all(mod.rpartition("/")[2] in text for mod in _var(recipe, "engine_mods"))

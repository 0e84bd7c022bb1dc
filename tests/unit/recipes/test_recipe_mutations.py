"""Any recipe is judged or refused with places, and never leads to a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkfleet.cli.recipes.validate import run_recipe_rules
from sparkfleet.errors import RecipeError, Where
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.recipes.rules import ObservedFacts
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.mutations import NUMBERS, create_chance, mutate_yaml

ROOT = Path(__file__).parents[3]
SEEDS = sorted((ROOT / "playbooks" / "recipes").glob("*.yml"))
TOKEN = "hf_" + "a1B2" * 8
EXAMPLES = scale_examples(80, thorough=MANY)
pytestmark = pytest.mark.timeout(7200)  # 20,000 examples with --thorough
TOKENS = r"""
{{ x }}|{{|{% if|@MODEL@|!vault x|!!set |!unsafe |&a |*a|<<: *a|[|]|{|}|: |- |#|'|"|>
null|~|0|-1|1e999|0x|.nan|2026-99-99|yes|=|? [a]|: b|vllm_args: [1]|vllm_args: x|vllm_env: {1: 2}
checkpoint: {format: 1}|checkpoint: x|requires: {vllm: x}|requires: []|extends: lab-tiny
extends: [a]|speeds: [1]|why: {x: y}|smoke: x|tp_max: 0|vllm_accept: [1]|vllm_accept: x
speculative-config: []|speculative-config: '{"method"'|speculative-config: {method: 1}
gpu-memory-utilization: []|gpu-memory-utilization: .inf|quantization: {a: b}|engine_image: a@b:c@d
engine_image: ':::'|engine_image: vllm/vllm-openai:v9999999999.0|vllm_model: [a]
engine_args: [1]|{repeat: [a]}
"""
TOKEN_LIST = TOKENS.replace("\n", "|").strip("|").split("|")
TEXTS = [path.read_text(encoding="utf-8") for path in SEEDS]
FORMATS = sorted((ROOT / "tests" / "seeds" / "recipes-of-others").iterdir())
FOREIGN = [
    [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))]
    for folder in FORMATS
]


def _is_place(where: Where | None) -> bool:
    return where is not None and where.line is not None and where.col is not None


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["fp8", "marlin", "dflash", "mtp", "1.0.0.0", "a/b:c", TOKEN, "{", "{}", "-"])
    | st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=8)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["method", "model", "num_speculative_tokens"]), inner)
    ),
    max_leaves=4,
)
OPTIONS = (
    "quantization speculative-config kv-cache-dtype moe-backend enable-chunked-prefill load-format "
    "gpu-memory-utilization gpu_memory_utilization enable-auto-tool-choice tool-call-parser tp x"
)
MODELS = (
    "nvidia/Gemma-4-26B-A4B-NVFP4 nvidia/Gemma-4-31B-IT-NVFP4 Qwen/Qwen3.5-35B-A3B "
    "nvidia/Qwen3.6-35B-A3B-NVFP4 nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4 me/x"
)
WILD = st.fixed_dictionaries(
    {"vllm_model": st.sampled_from(MODELS.split())},
    optional={
        "vllm_args": st.dictionaries(st.sampled_from(OPTIONS.split()), VALUES, max_size=5),
        "vllm_env": st.dictionaries(
            st.sampled_from(["VLLM_ATTENTION_BACKEND", "HF_TOKEN", "KV_CACHE_DTYPE", "VLLM_X"]),
            SCALARS,
        ),
        "engine_image": st.text(st.sampled_from("vllm/openai-:@.0gemma4cu13"), max_size=24)
        | st.sampled_from(["vllm/vllm-openai", "nvcr.io/nvidia/vllm:26.04-py3"]),
        "engine_args": st.lists(st.text("-e=HF_TOKEN", max_size=12), max_size=3),
        "vllm_accept": st.lists(st.text("option", max_size=6), max_size=2),
        "requires": st.dictionaries(
            st.sampled_from(["vllm", "x"]), st.sampled_from([">=0.21", "==1.*", "~=0.19.0", "<0"])
        ),
        "checkpoint": st.fixed_dictionaries(
            {},
            optional={"format": st.text("modelpt-", min_size=1), "architecture": st.text("Gema4")},
        ),
    },
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(WILD, st.sampled_from(["", "0.19.0", "0.24.0", "0.99.0"]))
def test_wild_values_are_judged_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any], vllm: str
) -> None:
    text = yaml.safe_dump(content, allow_unicode=True)
    with limit_cpu_time():
        _judge(tmp_path_factory.getbasetemp() / "wild.yml", text.encode(), vllm)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(NUMBERS, st.sampled_from(["", "0.19.0", "0.24.0"]))
def test_a_mutated_recipe_is_judged_or_refused(
    tmp_path_factory: pytest.TempPathFactory, number: int, vllm: str
) -> None:
    content = mutate_yaml(create_chance(number), TEXTS, TOKEN_LIST)
    with limit_cpu_time():
        _judge(tmp_path_factory.getbasetemp() / "mutated.yml", content, vllm)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(NUMBERS)
def test_a_mutated_recipe_of_others_is_judged_or_refused(
    tmp_path_factory: pytest.TempPathFactory, number: int
) -> None:
    chance = create_chance(number)
    content = mutate_yaml(chance, chance.choice(FOREIGN))
    with limit_cpu_time():
        _judge(tmp_path_factory.getbasetemp() / "theirs.yaml", content, "")


def _judge(path: Path, content: bytes, vllm: str) -> None:
    path.write_bytes(content)
    try:
        recipe = load_recipe(str(path))
    except RecipeError as refusal:
        for problem in refusal.problems:
            assert problem.message
            assert _is_place(problem.where), problem
        return
    for one in run_recipe_rules(recipe, tp=2, facts=ObservedFacts(vllm=vllm)):
        assert _is_place(one.finding.where), one
        assert str(one.problem)
        assert str(one.verdict("host"))

"""Any config.json leads to an answer or an InputError, and to nothing else."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings

from sparkfleet.errors import InputError
from sparkfleet.fit.advice import recommend_topology
from sparkfleet.fit.checkpoint import build_model_profile
from sparkfleet.fit.memory import NodeMemory, evaluate_nodes
from sparkfleet.fit.options import ServeOptions, Speculation
from sparkfleet.fit.precision import matches_module
from sparkfleet.fit.requirements import estimate_requirements
from sparkfleet.fit.verdicts import build_fit_verdict
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.models import CONFIGS
from tests.mutations import NUMBERS, create_chance, dump_tree, mutate_tree

ROOM = NodeMemory(host="spark", available=10**11)
TREES = {path.stem: json.loads(path.read_text()) for path in CONFIGS.glob("*.json")}


def answer(text: str) -> None:
    """Go all the way that a config goes."""
    drafting = Speculation(method="mtp", tokens=2)
    for asked in (ServeOptions(util=0.8), ServeOptions(tp=2, online="fp8", speculation=drafting)):
        model = build_model_profile(
            {"files": {"config.json": text}, "tensors": [], "drafts": {}}, asked
        )
        for fit in evaluate_nodes(estimate_requirements(model, asked), asked, (ROOM,)).values():
            build_fit_verdict(fit, asked)
        recommend_topology(model, asked, (ROOM,))


@pytest.mark.timeout(7200)  # 20,000 examples with --thorough
@given(NUMBERS)
@settings(max_examples=scale_examples(30, thorough=MANY), deadline=None)
def test_a_changed_config_is_answered_or_refused(number: int) -> None:
    chance = create_chance(number)
    trees = list(TREES.values())
    content = dump_tree(chance, mutate_tree(chance, chance.choice(trees), trees))
    with limit_cpu_time(), contextlib.suppress(InputError):
        answer(content.decode(errors="replace"))


@pytest.mark.parametrize("name", TREES)
def test_every_recorded_config_is_answered(name: str) -> None:
    answer(json.dumps(TREES[name]))


@pytest.mark.parametrize("nested", [1.5, True, [1], "x"])
def test_a_language_model_of_another_type_is_passed_over(nested: object) -> None:
    tree = {**TREES["llama-3.3-70b-instruct"], "thinker_config": {"text_config": nested}}
    answer(json.dumps(tree))


def test_a_quantization_that_nests_without_end_is_none() -> None:
    files = {"config.json": json.dumps(TREES["llama-3.3-70b-instruct"])}
    files["hf_quant_config.json"] = "[" * 100_000
    answer_shape = {"files": files, "tensors": [], "drafts": {}}
    assert build_model_profile(answer_shape, ServeOptions(util=0.8)).shape is not None


def test_many_modules_that_stay_unquantized_cost_no_time() -> None:
    names = [f"model.layers.{at}.x" for at in range(200_000)]
    tree = {**TREES["llama-3.3-70b-instruct"]}
    tree["quantization_config"] = {"quant_method": "compressed-tensors", "ignore": names}
    with limit_cpu_time():
        answer(json.dumps(tree))


def _find_unknown(*patterns: str) -> str:
    tree = {**TREES["llama-3.3-70b-instruct"]}
    tree["quantization_config"] = {"quant_method": "fp8", "ignore": list(patterns)}
    found = {"files": {"config.json": json.dumps(tree)}, "tensors": [], "drafts": {}}
    with limit_cpu_time():
        return " ".join(build_model_profile(found, ServeOptions(util=0.8)).unknown)


def test_a_pattern_that_takes_for_ever_makes_the_size_of_weights_unknown() -> None:
    """A config.json comes from a Hub: the search of (.+)+x$ would not have ended."""
    assert "may take forever to match" in _find_unknown("re:(.+)+x$")
    assert "may take forever to match" in _find_unknown("re:.*.*.*.*x$")
    assert "more than 1000 characters" in _find_unknown("re:" + "a*" * 600)
    many = [f"re:.*layers.*{at}$" for at in range(51)]
    assert "more than 50 regular expressions" in _find_unknown(*many)


def test_patterns_of_published_checkpoints_are_tried() -> None:
    assert not _find_unknown(r"re:.*layers\.\d+\.(mlp|self_attn)\..*_proj$", "re:.*lm_head")
    assert matches_module(r"re:.*self_attn\.(q|k)_proj.*", "model.layers.3.self_attn.q_proj")


def test_too_many_patterns_make_the_size_of_weights_unknown() -> None:
    patterns = [f"re:.*layers.{at}.*" for at in range(501)]
    tree = {**TREES["llama-3.3-70b-instruct"]}
    tree["quantization_config"] = {"quant_method": "fp8", "ignore": patterns}
    found = {"files": {"config.json": json.dumps(tree)}, "tensors": [], "drafts": {}}
    model = build_model_profile(found, ServeOptions(util=0.8))
    assert any("more than 500 patterns" in reason for reason in model.unknown)

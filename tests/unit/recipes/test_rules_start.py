"""The rules before a start, with what the hosts report about their vLLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.check import recipe_rules
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.actions.run_state import RunState
from sparkfleet.errors import RecipeError
from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.model import ModelProfile
from sparkfleet.launch.host.installed_vllm import inspect_installed_vllm
from sparkfleet.model import Cluster, Host, Severity, Value
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.recipes.rules import ObservedFacts
from sparkfleet.remote.connection import Connection
from tests import engines, scenes

HOSTS = ("spark-01", "spark-02")


class Engine:
    """A host that answers the one question about its vLLM."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, ...]] = []

    def query(
        self,
        program: str,
        request: Any,
        parser: Callable[[Any], Any],
        *,
        python: tuple[str, ...],
    ) -> Any:
        self.asked.append((program, *python))
        return parser(self.answer)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Return a function that makes the scene of a start with a recipe."""
    with scenes.scene(tmp_path) as made:

        def with_recipe(text: str, options: RunOptions = scenes.OPTIONS, **own: Any) -> RunContext:
            path = tmp_path / "made.yml"
            path.write_text(text)
            recipe = load_recipe(str(path))
            extra = {name: Value(data=data) for name, data in own.items()}
            hosts = [Host(name=name, vars=dict(recipe.vars)) for name in HOSTS]
            hosts[1] = replace(hosts[1], vars={**hosts[1].vars, **extra})
            cluster = Cluster(name="test", hosts=tuple(hosts))
            return replace(made, recipe=recipe, cluster=cluster, options=options)

        yield with_recipe


def _known(**changes: ObservedFacts) -> dict[str, ObservedFacts]:
    return {
        name: changes.get(name.replace("-", "_"), ObservedFacts(vllm="0.21.0")) for name in HOSTS
    }


def test_a_start_is_refused_with_everything_that_is_wrong_at_once(start: Any) -> None:
    scene = start(
        "vllm_model: a\nvllm_args:\n  quantizaton: fp8\n  enable-auto-tool-choice: true\n"
    )
    with pytest.raises(RecipeError) as caught:
        recipe_rules.judge_recipe_rules(scene, _known())
    places = [str(problem.where).rpartition("made.yml:")[2] for problem in caught.value.problems]
    assert sorted(places) == ["3:3", "4:3"]
    assert "did you mean 'quantization'?" in str(caught.value)


def test_a_verdict_for_all_hosts_is_shown_once_and_others_on_their_host(start: Any) -> None:
    draft = '{"method": "mtp", "num_speculative_tokens": 5}'
    text = f"vllm_model: a\nvllm_args: {{speculative-config: {draft}}}\n"
    verdicts = recipe_rules.judge_recipe_rules(start(text), _known()).verdicts
    assert [(one.host, one.check) for one in verdicts] == [("spark-01", "recipe.mtp_tokens")]
    env = {"VLLM_NVFP4_GEMM_BACKEND": "marlin"}
    newer = _known(spark_02=ObservedFacts(vllm="0.25.1"))
    verdicts = recipe_rules.judge_recipe_rules(start(text, vllm_env=env), newer).verdicts
    assert [(one.host, one.check) for one in verdicts] == [
        ("spark-01", "recipe.mtp_tokens"),
        ("spark-02", "recipe.variable"),
    ]
    assert verdicts[1].severity is Severity.WARNING


def test_advice_is_kept_for_the_start_with_its_reason(start: Any) -> None:
    scene = start("vllm_model: google/gemma-4-31B-it\n")
    report = recipe_rules.judge_recipe_rules(scene, _known())
    (verdict,) = report.verdicts
    assert not verdict.refuses
    (advice,) = report.advice
    assert advice.startswith("the model: expected the MoE of the same family")
    assert advice.endswith("(single-spark, verdict; 52-toks, phase 0)")


def test_the_size_of_the_group_counts(start: Any) -> None:
    text = "vllm_model: nvidia/Gemma-4-26B-A4B-NVFP4\nvllm_args:\n  quantization: modelopt\n"
    text += "  moe-backend: marlin\n"
    assert recipe_rules.judge_recipe_rules(start(text), _known()).verdicts == ()
    with pytest.raises(RecipeError, match="1 at most, for this checkpoint"):
        recipe_rules.judge_recipe_rules(start(text, options=RunOptions(tp=2)), _known())


def test_rules_about_an_image_apply_once_it_was_inspected(start: Any) -> None:
    text = "vllm_model: google/gemma-4-31B-it\nvllm_args: {swap-space: 4}\n"
    scene = start(text)
    known = ObservedFacts(vllm="0.99.0", options={"max-model-len"})
    (verdict,) = recipe_rules.check_learned_rules(scene, scene.cluster.head, known)
    assert (verdict.check, verdict.refuses) == ("recipe.option", True)


def test_rules_about_the_staged_checkpoint_apply_on_the_head(start: Any) -> None:
    options = "{quantization: modelopt, trust-remote-code: true}"
    scene = start(f"vllm_model: google/gemma-4-31B-it\nvllm_args: {options}\n")
    method = {"quant_method": "compressed-tensors"}
    shape = Architecture(name="LagunaForCausalLM", quantization=method, code=("org/impl",))
    model = ModelProfile(shape=shape)
    assert (
        recipe_rules.check_staged_rules(scene, model) == ()
    )  # the engines have not been inspected yet
    scene.provide(RunState(observed=_known(spark_01=ObservedFacts(vllm="0.20.2"))))
    found = recipe_rules.check_staged_rules(scene, model)
    assert {(one.host, one.check) for one in found} == {
        ("spark-01", "recipe.compressed_tensors"),
        ("spark-01", "recipe.architecture"),
        ("spark-01", "recipe.borrowed_code"),
    }
    assert recipe_rules.check_staged_rules(scene, ModelProfile()) == ()


def _native(engine: Engine, **versions: str) -> ObservedFacts:
    survey = engines.survey(engine=versions, image=None)
    settings = engines.settings(engine="native", engine_venv="~/venv")
    link: Connection = engine  # type: ignore[assignment]  # a double
    return inspect_installed_vllm(link, settings, survey)


def test_the_list_of_a_release_is_known_without_asking() -> None:
    engine = Engine({})
    known = _native(engine, vllm="0.32.0+cpu", transformers="5.19.0")
    assert engine.asked == []
    assert (known.vllm, known.options) == ("0.32.0+cpu", frozenset())
    assert known.packages["transformers"] == "5.19.0"


def test_an_engine_of_another_version_is_asked_by_its_own_python() -> None:
    answer = {
        "packages": {"vllm": "0.34.0.dev7", "transformers": "5.20.0"},
        "programs": [],
        "nodes": True,
        "options": ["max-model-len"],
        "values": {"load-format": ["auto"]},
        "variables": ["VLLM_ONE"],
        "nccl_conf": "",
        "gpus": "",
    }
    engine = Engine(answer)
    known = _native(engine, vllm="0.34.0.dev7")
    assert engine.asked == [("deployment/probe", "/home/nvidia/venv/bin/python")]
    assert known.options == {"max-model-len"}
    assert known.variables == {"VLLM_ONE"}
    assert known.values == {"load-format": ("auto",)}


def test_an_image_that_was_not_inspected_leads_to_no_verdict() -> None:
    engine = Engine({})
    link: Connection = engine  # type: ignore[assignment]  # a double
    seen = inspect_installed_vllm(link, engines.settings(), engines.survey())
    assert (seen.vllm, seen.packages["transformers"]) == ("0.19.0", "5.1.0")
    unseen = replace(engines.WITH_IMAGE, probe=None)
    assert (
        inspect_installed_vllm(link, engines.settings(), engines.survey(image=unseen))
        == ObservedFacts()
    )
    assert engine.asked == []

"""C22: one image has Ray but not the architecture, the other the reverse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparkfleet.doctor.matcher import find_known_failures
from sparkfleet.launch.images.checks import check_image_contents
from tests.engines import PROBE, WITH_IMAGE, settings

OLD = replace(
    WITH_IMAGE,
    probe=replace(PROBE, packages={"vllm": "0.19.0", "transformers": "4.57.1"}),
)
NEW = replace(
    WITH_IMAGE,
    probe=replace(PROBE, packages={"vllm": "0.23.1rc1.dev309", "transformers": "5.8.1"}),
)


def _refused(image: Any, **needs: Any) -> list[str]:
    found = check_image_contents(image, settings(**needs), (), nodes=1)
    return [one.check for one in found if one.refuses]


def test_a_recipe_says_which_vllm_and_transformers_it_needs() -> None:
    needs = {"vllm_min_version": "0.21.0", "vllm_min_transformers": "5.0"}
    assert _refused(OLD, **needs) == ["engine.vllm_version", "engine.transformers_version"]
    assert _refused(NEW, **needs) == []


def test_the_refusal_shows_the_version_found_and_the_one_needed() -> None:
    found = check_image_contents(OLD, settings(vllm_min_version="0.21.0"), (), nodes=1)
    (verdict,) = [one for one in found if one.refuses]
    assert (verdict.seen, verdict.expected) == ("0.19.0", "0.21.0 or later")


def test_both_messages_of_the_case_have_plain_causes() -> None:
    logs = {
        "spark-1": "bash: line 1: ray: command not found\n",
        "spark-2": "The checkpoint you are trying to load has model type `gemma4` but Transformers "
        "does not recognize this architecture.\n",
    }
    causes = {finding.host: finding.cause for finding in find_known_failures(logs)}
    assert "no Ray" in causes["spark-1"]
    assert "older than the model" in causes["spark-2"]

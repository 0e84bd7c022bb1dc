"""Rules about images and versions: each on a made mistake, and on its near misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet.recipes.rules import ObservedFacts
from sparkfleet.recipes.rules.images import parse_image_reference
from tests.judged import Recipes

DENSE = "nvidia/Gemma-4-31B-IT-NVFP4"
DFLASH = {"speculative-config": {"method": "dflash", "model": "d", "num_speculative_tokens": 7}}
OPENAI = "vllm/vllm-openai"
NGC = "nvcr.io/nvidia/vllm"
DIGEST = "@sha256:" + "0" * 64


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def _recipe(image: str | None = None, **more: Any) -> dict[str, Any]:
    return {"vllm_model": "me/tuned", **({"engine_image": image} if image else {}), **more}


@pytest.mark.parametrize(
    ("name", "version"),
    [
        (f"{OPENAI}:v0.19.0-cu130", "0.19.0"),
        (f"docker.io/{OPENAI}:v0.25.1", "0.25.1"),
        (f"{NGC}:26.04-py3", "0.19.0"),
        (f"{OPENAI}:gemma4-cu130", "0.19.0.dev0"),
        (f"{OPENAI}:nightly", ""),
        (f"{NGC}:25.12.post1-py3", ""),
        ("localhost:5000/vllm:v0.19.0", ""),
        ("", ""),
    ],
)
def test_the_vllm_of_an_image_is_known_where_a_document_names_it(name: str, version: str) -> None:
    assert parse_image_reference(name).vllm == version


def test_the_parts_of_a_name_are_distinguished() -> None:
    image = parse_image_reference(f"localhost:5000/a/vllm:1.0{DIGEST}")
    assert (image.repository, image.tag) == ("localhost:5000/a/vllm", "1.0")
    assert f"@{image.digest}" == DIGEST


@pytest.mark.parametrize(
    ("image", "found", "fires"),
    [
        (f"{NGC}:26.04-py3", "", True),
        (f"{OPENAI}:v0.20.2", "", True),
        (f"{OPENAI}:nightly", "0.20.3.dev17+g1234", True),
        (f"{OPENAI}:nightly", "0.21.0", False),
        (f"{NGC}:26.04-py3", "0.21.0", False),  # what was found counts more than the name
        (f"{OPENAI}:nightly", "", False),
        ("ghcr.io/z-lab/vllm-openai:gemma4-dflash-cu130", "", False),
    ],
)
def test_dflash_wants_a_new_vllm(recipes: Recipes, image: str, found: str, *, fires: bool) -> None:
    recipe = _recipe(image, vllm_args=DFLASH)
    assert ("dflash_version" in recipes.found(recipe, known=ObservedFacts(vllm=found))) is fires


def test_what_the_image_says_is_nothing_to_an_engine_of_the_host(recipes: Recipes) -> None:
    recipe = _recipe(f"{OPENAI}:v0.19.0", engine_venv="~/venv", vllm_args=DFLASH)
    assert recipes.found(recipe) == {}


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (f"{OPENAI}:gemma4", "error"),
        (f"docker.io/{OPENAI}:gemma4", "error"),
        (f"{OPENAI}:gemma4-cu130", None),
        ("me/vllm-openai:gemma4", None),
    ],
)
def test_gemma4_and_gemma4_cu130_are_two_images(
    recipes: Recipes, image: str, expected: str | None
) -> None:
    assert recipes.found(_recipe(image)).get("gemma4_tag") == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (f"{OPENAI}:v0.19.0", "error"),
        (f"{OPENAI}:v0.21.0-cu129", "error"),
        (OPENAI, "warning"),
        (f"{OPENAI}:latest", "warning"),
        (f"{NGC}:26.01-py3", "warning"),
        (f"{NGC}:25.12-py3", "warning"),
        (f"{OPENAI}:v0.19.0-cu130", None),
        (f"{OPENAI}:v0.20.0", None),
        (f"{OPENAI}:nightly", None),
        (f"{OPENAI}:cu130-nightly", None),
        (f"{OPENAI}{DIGEST}", None),
        (f"{NGC}:26.02-py3", None),
        (f"{NGC}:25.12.post1-py3", None),
        ("ghcr.io/aeon-7/vllm-dflash:latest", None),
        ("vllm-node-tf5", None),
    ],
)
def test_an_image_without_sm121_is_recognized_by_its_name(
    recipes: Recipes, image: str, expected: str | None
) -> None:
    assert recipes.found(_recipe(image)).get("stable_image") == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (f"{OPENAI}:nightly", "info"),
        (f"{OPENAI}:cu130-nightly", "info"),
        (f"{OPENAI}:gemma", "info"),
        ("ghcr.io/aeon-7/vllm-dflash:latest", "info"),
        ("ghcr.io/aeon-7/vllm-dflash", "info"),
        (f"{OPENAI}:nightly{DIGEST}", None),
        (f"{NGC}:26.04-py3", "info"),  # a registry may replace a version's tag too
        (f"{OPENAI}:v0.20.0", "info"),
        ("localhost:5000/vllm:mine", "info"),
        (f"{OPENAI}:v0.20.0{DIGEST}", None),
        ("vllm-node-tf5", None),  # built here: it is in no registry
    ],
)
def test_an_image_without_a_digest_is_reported(
    recipes: Recipes, image: str, expected: str | None
) -> None:
    assert recipes.found(_recipe(image)).get("moving_tag") == expected


@pytest.mark.parametrize(
    ("image", "more", "expected"),
    [
        (f"{OPENAI}:gemma4-cu130", {}, "error"),
        (f"{OPENAI}:gemma4-cu130", {"engine_pip": ["fastsafetensors"]}, "info"),
        ("vllm-node-tf5", {}, None),
        (f"{OPENAI}:nightly", {}, None),
    ],
)
def test_fastsafetensors_must_be_in_the_image(
    recipes: Recipes, image: str, more: dict[str, Any], expected: str | None
) -> None:
    recipe = _recipe(image, vllm_args={"load-format": "fastsafetensors"}, **more)
    assert recipes.found(recipe).get("fastsafetensors") == expected
    plain = _recipe(image, vllm_args={"load-format": "safetensors"}, **more)
    assert "fastsafetensors" not in recipes.found(plain)


@pytest.mark.parametrize(
    ("requires", "known", "expected"),
    [
        ({"vllm": ">=0.21,<0.24"}, ObservedFacts(vllm="0.19.0"), "error"),
        ({"vllm": ">=0.21,<0.24"}, ObservedFacts(vllm="0.24.0+cu130"), "error"),
        ({"transformers": ">=5.5.0"}, ObservedFacts(packages={"transformers": "4.57.1"}), "error"),
        (
            {"flashinfer": ">=0.6.6"},
            ObservedFacts(packages={"flashinfer-python": "0.6.3"}),
            "error",
        ),
        ({"vllm": ">=0.21,<0.24"}, ObservedFacts(vllm="0.21.0"), None),
        ({"vllm": ">=0.21"}, ObservedFacts(vllm="0.21.0rc1.dev309+gabc"), None),
        ({"flashinfer": ">=0.6.6"}, ObservedFacts(packages={"flashinfer-python": "0.6.7"}), None),
        ({"vllm": ">=0.21", "transformers": ">=5"}, ObservedFacts(), None),
        ({"vllm": ">=0.21"}, ObservedFacts(vllm="dev"), None),
    ],
)
def test_what_the_recipe_requires_must_be_there(
    recipes: Recipes, requires: dict[str, str], known: ObservedFacts, expected: str | None
) -> None:
    found = recipes.found(_recipe(requires=requires), known=known)
    assert found.get("requires") == expected


def test_a_package_that_is_too_old_is_reported_at_its_own_line(recipes: Recipes) -> None:
    text = "vllm_model: a\nrequires:\n  transformers: '>=5'\n  vllm: '>=0.21'\n"
    (one,) = recipes.judged(text, known=ObservedFacts(vllm="0.19.0"))
    assert str(one.finding.where).endswith("made.yml:4:3")


@pytest.mark.parametrize(
    ("architecture", "model", "image", "fires"),
    [
        ("Gemma4UnifiedForConditionalGeneration", "coder", f"{NGC}:26.04-py3", True),
        ("LagunaForCausalLM", "poolside/Laguna-XS.2", f"{OPENAI}:v0.20.2", True),
        ("NobodysForCausalLM", "me/tuned", f"{OPENAI}:v0.25.1", True),
        ("", DENSE, f"{OPENAI}:v0.18.1-cu130", True),
        ("Gemma4UnifiedForConditionalGeneration", "coder", f"{OPENAI}:v0.23.0", False),
        ("Gemma4UnifiedForConditionalGeneration", "coder", f"{OPENAI}:nightly", False),
        ("Gemma4ForConditionalGeneration", DENSE, f"{OPENAI}:gemma4-cu130", False),
        ("", DENSE, f"{OPENAI}:gemma4-cu130", False),
        ("", "me/tuned", f"{NGC}:26.04-py3", False),
    ],
)
def test_an_old_image_does_not_know_a_new_model(
    recipes: Recipes, architecture: str, model: str, image: str, *, fires: bool
) -> None:
    about = {"checkpoint": {"architecture": architecture}} if architecture else {}
    found = recipes.found({**_recipe(image, **about), "vllm_model": model})
    assert ("architecture" in found) is fires


def test_the_architecture_of_the_checkpoint_counts_too(recipes: Recipes) -> None:
    known = ObservedFacts(vllm="0.21.0", architecture="Gemma4UnifiedForConditionalGeneration")
    assert recipes.found(_recipe(), known=known) == {"architecture": "error"}


@pytest.mark.parametrize(
    ("version", "model", "fires"),
    [
        ("0.23.1rc1.dev309", DENSE, True),
        ("0.24.0", DENSE, True),
        ("0.24.0+cu130", DENSE, True),
        ("0.20.2rc1", DENSE, False),
        ("0.23.0", DENSE, False),
        ("0.25.1", DENSE, False),
        ("0.24.0", "google/gemma-4-31B-it", False),
        ("0.24.0", "nvidia/Gemma-4-26B-A4B-NVFP4", False),
    ],
)
def test_the_vllm_that_cannot_tie_weights_is_reported(
    recipes: Recipes, version: str, model: str, *, fires: bool
) -> None:
    found = recipes.found({"vllm_model": model}, known=ObservedFacts(vllm=version))
    assert ("tied_weights" in found) is fires

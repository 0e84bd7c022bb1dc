"""Rules about what is written: options, variables and secrets, each with its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.recipes.rules import ObservedFacts
from tests.judged import Recipes

TOKEN = "hf_" + "a1B2" * 8
OWN = ObservedFacts(vllm="0.99.0.dev1", options={"max-model-len"}, variables={"VLLM_ONE"})


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def _args(**args: Any) -> dict[str, Any]:
    return {"vllm_model": "a", "vllm_args": {key.replace("_", "-"): args[key] for key in args}}


@pytest.mark.parametrize(
    ("option", "version", "expected"),
    [
        ("quantizaton", "0.21.0", "error"),
        ("swap-space", "0.21.0", "error"),  # removed in 0.18
        ("headless-mode", "", "warning"),  # no release has it, and a nightly is not known
        ("speculative-disable-by-batch-size", "0.19.0", "error"),
        ("swap-space", "0.17.1", None),
        ("swap-space", "", None),  # some vLLM has it
        ("swap-space", "0.17.5", None),  # between a release with it and one without
        ("swap-space", "0.18.2.dev0", "error"),
        ("quantization", "0.21.0", None),
        ("no-enable-prefix-caching", "0.21.0", None),
        ("no_enable_prefix_cach", "0.21.0", None),
        ("no-enable-prefix-cachng", "0.21.0", "error"),
        ("compilation-config.mode", "0.21.0", None),
        ("quantizaton", "0.99.0", "warning"),  # newer than what is known
    ],
)
def test_an_option_that_vllm_does_not_have_is_reported(
    recipes: Recipes, option: str, version: str, expected: str | None
) -> None:
    found = recipes.found(_args(**{option: 1}), known=ObservedFacts(vllm=version))
    assert found.get("option") == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("eugr/spark-vllm-b12x:latest", None),
        ("eugr/spark-vllm:latest", "warning"),
        ("vllm/vllm-openai:v0.28.0", "error"),
    ],
)
def test_an_option_of_a_fork_is_known_for_its_image_only(
    recipes: Recipes, image: str, expected: str | None
) -> None:
    recipe = {**_args(gdn_decode_kernel="b12x"), "engine_image": image}
    assert recipes.found(recipe).get("option") == expected


@pytest.mark.parametrize(
    ("option", "expected"), [("gpu-memory-utilization-gb", "info"), ("swap-space", "error")]
)
def test_an_option_that_a_mod_may_add_does_not_refuse(
    recipes: Recipes, option: str, expected: str
) -> None:
    """The list of an image is read before its mods; a name that a release dropped is wrong."""
    recipe = {**_args(**{option: 108}), "engine_mods": ["mods/gpu-mem-util-gb"]}
    known = ObservedFacts(vllm="0.29.0", options={"max-model-len"}, variables=set())
    assert recipes.found(recipe, known=known).get("option") == expected
    without = {name: value for name, value in recipe.items() if name != "engine_mods"}
    assert recipes.found(without, known=known).get("option") == "error"


def test_the_engines_own_list_counts_more_than_any_table(recipes: Recipes) -> None:
    recipe = {**_args(max_model_len=1, quantization="fp8"), "vllm_env": {"VLLM_ONE": 1}}
    assert recipes.found(recipe, known=OWN) == {"option": "error"}


def test_an_unknown_option_is_reported_with_the_likely_name_and_its_history(
    recipes: Recipes,
) -> None:
    recipe = _args(quantizaton="fp8", swap_space=4)
    wrong, gone = recipes.judged(recipe, known=ObservedFacts(vllm="0.21.0"))
    assert wrong.finding.fix == "did you mean 'quantization'?"
    assert gone.finding.fix == "remove swap-space, or run a vLLM that has it"
    assert gone.finding.seen == "one in vLLM 0.10.2 or before to 0.17.1"


def test_the_replacement_of_a_dropped_name_is_shown(recipes: Recipes) -> None:
    recipe = {"vllm_model": "a", "vllm_args": {"cuda-graph-sizes": [1, 2]}}
    recipe["vllm_env"] = {"VLLM_NVFP4_GEMM_BACKEND": "marlin"}
    option, variable = recipes.judged(recipe, known=ObservedFacts(vllm="0.25.1"))
    assert option.finding.fix == "vllm_args: cudagraph-capture-sizes: ..."
    assert variable.finding.fix == "vllm_args: linear-backend: ..."


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("VLLM_NVFP4_GEMM_BACKEND", "0.24.0", "warning"),
        ("VLLM_NOBODYS", "0.24.0", "info"),
        ("VLLM_NOBODYS", "", "info"),
        ("VLLM_NVFP4_GEMM_BACKEND", "0.23.0", None),
        ("VLLM_NVFP4_GEMM_BACKEND", "", None),
        ("MAX_MODEL_LEN", "0.24.0", None),
    ],
)
def test_a_variable_that_vllm_does_not_read_is_reported(
    recipes: Recipes, name: str, version: str, expected: str | None
) -> None:
    recipe = {"vllm_model": "a", "vllm_env": {name: "1"}}
    assert recipes.found(recipe, known=ObservedFacts(vllm=version)).get("variable") == expected
    unset = {"vllm_model": "a", "vllm_env": {name: None}}
    assert recipes.found(unset, known=ObservedFacts(vllm=version)) == {}


OURS = [
    "nnodes",
    "tensor-parallel-size",
    "tensor_parallel_size",
    "tp",
    "-n",
    "tensor-par",
    "api_key",
]


@pytest.mark.parametrize("option", OURS)
def test_an_option_that_sparkfleet_sets_is_reported_however_it_is_spelt(
    recipes: Recipes, option: str
) -> None:
    assert recipes.found({"vllm_model": "a", "vllm_args": {option: 2}})["owned"] == "error"


def test_an_option_that_sparkfleet_sets_is_reported_among_raw_words(recipes: Recipes) -> None:
    recipe = {"vllm_model": "a", "vllm_raw_args": ["--max-num-seqs", "4", "--tp=2"]}
    (one,) = recipes.judged(recipe)
    assert (one.rule.id, one.finding.seen) == ("owned", "--tp")


def test_similar_options_are_left_to_the_recipe(recipes: Recipes) -> None:
    recipe = _args(tensor_parallelism=2, max_num_seqs=4, decode_context_parallel_size=1)
    assert "owned" not in recipes.found(recipe)


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"vllm_args": {"config": "/etc/vllm.yaml"}}, "error"),
        ({"vllm_raw_args": ["--config", "more.yaml"]}, "error"),
        ({"vllm_args": {"uds": "/run/vllm.sock"}}, "error"),
        ({"vllm_raw_args": ["--ssl-keyfile=key.pem"]}, "error"),
        ({"vllm_args": {"grpc": True}}, "error"),
        ({"vllm_args": {"grpc": False, "uds": "None", "ssl_certfile": None}}, None),
        ({"vllm_args": {"root-path": "/v1"}}, None),
        ({"vllm_args": {"ssl-ca-certs": "ca.pem"}}, None),  # alone it does not switch TLS on
    ],
    ids=str,
)
def test_an_option_that_moves_the_endpoint_is_reported(
    recipes: Recipes, variables: dict[str, Any], found: str | None
) -> None:
    assert recipes.found({"vllm_model": "a", **variables}).get("endpoint") == found


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"vllm_raw_args": ["--help"]}, {"help": "error"}),
        ({"vllm_raw_args": ["-h"]}, {"help": "error"}),
        ({"vllm_raw_args": ["--help=all"]}, {"help": "error"}),
        ({"vllm_args": {"help": True}}, {"help": "error"}),
        ({"vllm_args": {"help": None}}, {}),
    ],
    ids=str,
)
def test_an_option_that_only_prints_help_is_reported(
    recipes: Recipes, variables: dict[str, Any], found: dict[str, str]
) -> None:
    assert recipes.found({"vllm_model": "a", **variables}) == found


def test_an_option_in_two_spellings_is_reported_at_the_second(recipes: Recipes) -> None:
    text = "vllm_model: a\nvllm_args:\n  max-model-len: 1\n  max_model_len: 2\n"
    (one,) = recipes.judged(text)
    assert one.rule.id == "twice"
    assert "made.yml:3:3" in one.finding.seen
    assert str(one.finding.where).endswith("made.yml:4:3")


def test_an_option_in_the_spelling_of_another_layer_is_not_given_twice(recipes: Recipes) -> None:
    recipe = _args(**{"max-model-len": 1})
    assert "twice" not in recipes.found(recipe, vllm_args={"max_model_len": 2})
    own = {"max_model_len": 2, "max-model-len": 3}
    assert recipes.found(recipe, vllm_args=own)["twice"] == "error"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--max_model_len", "2"], None),
        (["--max-model-len=2", "-q", "fp8"], None),
        (["--no-enable-prefix-caching"], None),
        (["--max-model-len.x", "2"], "error"),  # a key of it, and not the option itself
    ],
    ids=str,
)
def test_words_of_another_layer_are_not_given_twice(
    recipes: Recipes, words: list[str], found: str | None
) -> None:
    recipe = _args(max_model_len=1, quantization="int8", enable_prefix_caching=True)
    judged = recipes.found(recipe, vllm_raw_args=words, among=("twice", "one_object"))
    assert set(judged.values()) == ({found} if found else set())
    assert recipes.found({**recipe, "vllm_raw_args": ["--max-model-len", "2"]})["twice"] == "error"


@pytest.mark.parametrize(
    ("value", "fires"),
    [
        ("65536 \\", True),
        ("65536 \\\n--enforce-eager", True),
        ("fp8 --enable-prefix-caching", True),
        ("C:\\models\\a", False),
        ('{"method": "mtp"}', False),
        ("a-b --", False),
    ],
)
def test_a_command_line_in_a_value_is_reported(
    recipes: Recipes, value: str, *, fires: bool
) -> None:
    assert ("continuation" in recipes.found(_args(dtype=value))) is fires


@pytest.mark.parametrize(
    ("recipe", "fires"),
    [
        ({"vllm_env": {"HF_TOKEN": TOKEN}}, True),
        ({"vllm_env": {"VLLM_API_KEY": "0f3a9c77d1e2"}}, True),
        ({"vllm_args": {"hf-token": TOKEN}}, True),
        ({"vllm_args": {"api-key": ["one-secret", "another-one"]}}, True),
        ({"vllm_args": {"hf-overrides": {"auth": {"token": "abcdefgh"}}}}, True),
        ({"engine_args": ["-e", f"HF_TOKEN={TOKEN}"]}, True),
        ({"engine_args": ["--env=MY_PASSWORD=correct horse"]}, True),
        ({"engine_pip": ["git+https://me:s3cret@example.com/p"]}, True),
        ({"vllm_env": {"HF_TOKEN": "{{ lookup('env', 'HF_TOKEN') }}"}}, False),
        ({"vllm_env": {"HF_TOKEN": None, "DFLASH_NUM_SPEC_TOKENS": "15"}}, False),
        ({"vllm_env": {"MY_TOKEN": "$HF_TOKEN", "API_KEY": "/run/key", "A_SECRET": "none"}}, False),
        ({"vllm_env": {"TOKENIZERS_PARALLELISM": "false", "MAX_TOKEN": "65536000"}}, False),
        ({"vllm_args": {"tokenizer": "mistralai/tokenizer"}}, False),
        ({"engine_pip": ["git+https://example.com/p@main"]}, False),
        ({"engine_args": ["-e", "LEVEL=information"]}, False),
    ],
)
def test_a_secret_in_a_recipe_is_reported(
    recipes: Recipes, recipe: dict[str, Any], *, fires: bool
) -> None:
    assert ("secret" in recipes.found({"vllm_model": "a", **recipe})) is fires


def test_no_message_about_a_secret_contains_it(recipes: Recipes) -> None:
    recipe = {"vllm_model": "a", "vllm_args": {"hf-token": TOKEN}, "vllm_env": {"HF_TOKEN": TOKEN}}
    judged = recipes.judged(recipe)
    assert {one.rule.id for one in judged} >= {"secret"}
    assert TOKEN not in "".join(f"{one.problem} {one.verdict('h')}" for one in judged)


def test_an_accepted_rule_is_reported_and_does_not_refuse(recipes: Recipes) -> None:
    wrong = {"vllm_model": "a", "vllm_args": {"gpu-memory-utilization": 0.95}}
    assert recipes.found(wrong) == {"utilization": "error"}
    assert recipes.found({**wrong, "vllm_accept": ["utilization"]}) == {"utilization": "info"}


def test_a_rule_that_does_not_exist_cannot_be_accepted(recipes: Recipes) -> None:
    (one,) = recipes.judged({"vllm_model": "a", "vllm_accept": ["utilisation"]})
    assert one.finding.fix == "did you mean 'utilization'?"


def test_a_value_of_the_inventory_is_judged_as_the_recipes_own(recipes: Recipes) -> None:
    recipe = {"vllm_model": "a", "vllm_args": {"enable-auto-tool-choice": True}}
    assert "tool_parser" in recipes.found(recipe)
    assert "tool_parser" not in recipes.found(recipe, vllm_args={"tool-call-parser": "hermes"})
    assert "tool_parser" not in recipes.found(recipe, vllm_args={"enable-auto-tool-choice": None})


@pytest.mark.parametrize(
    ("option", "value", "version", "expected"),
    [
        ("attention-backend", "B12X_MLA_SPARSE", "0.29.0", "error"),
        ("attention-backend", "B12X", "0.29.0", "error"),  # since 0.30
        ("attention-backend", "B12X", "0.30.0", None),
        ("attention-backend", "triton_attn", "0.29.0", None),
        ("attention-backend", "TRITON_ATTN", "0.10.2", None),  # the option is reported, not this
        ("attention-backend", "B12X_MLA_SPARSE", "", "info"),  # of an image that is not known
        ("attention-backend", "B12X", "", None),
        ("attention-backend", "B12X_MLA_SPARSE", "0.99.0", "info"),  # newer than what is known
        ("attention-config.backend", "FLASH", "0.29.0", "error"),
        ("attention-config.backend", "FLASH_ATTN", "0.29.0", None),
        ("tool-call-parser", "glm4_moe", "0.29.0", "error"),
        ("tool-call-parser", "glm45", "0.29.0", None),
        ("reasoning-parser", "qwen", "0.29.0", "error"),
        ("reasoning-parser", "qwen3", "0.29.0", None),
        ("kv-cache-dtype", "nvfp4", "0.16.0", "error"),
        ("kv-cache-dtype", "nvfp4", "0.29.0", None),
        ("moe-backend", "flashinfer-cutlass", "0.29.0", None),
        ("moe-backend", "vllm_cutlass", "0.29.0", "error"),
        ("quantization", "nvfp4", "0.29.0", "warning"),  # a package may register it
        ("quantization", "gguf", "", None),
        ("load-format", "Safetensors", "0.29.0", None),
        ("load-format", "gguf", "0.29.0", "warning"),
    ],
)
def test_a_value_that_vllm_does_not_have_is_reported(
    recipes: Recipes, option: str, value: str, version: str, expected: str | None
) -> None:
    found = recipes.found(_args(**{option: value}), known=ObservedFacts(vllm=version))
    assert found.get("value") == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"mm-processor-device": "x"}, "error"),
        ({"mm-processor-device": "cuda:0"}, "error"),
        ({"mm-processor-device": "cuda"}, "warning"),
        ({"mm-processor-device": "cuda", "ec-transfer-config": {"ec_role": "ec_producer"}}, None),
        ({"mm_processor_device": "cpu"}, None),
        ({"mm_processor_device": "auto"}, None),
        ({"mm_processor_device": None}, None),
    ],
    ids=str,
)
def test_a_device_that_cannot_prepare_images_is_reported(
    recipes: Recipes, args: dict[str, Any], expected: str | None
) -> None:
    recipe = {"vllm_model": "a", "vllm_args": args}
    assert recipes.found(recipe).get("processor_device") == expected
    newer = recipes.found(recipe, known=ObservedFacts(vllm="0.33.0"))
    assert newer.get("processor_device") == (expected and "warning")


def test_a_value_is_compared_with_the_engine_that_was_looked_into(recipes: Recipes) -> None:
    args = _args(tool_call_parser="ours", reasoning_parser="qwen3")
    known = ObservedFacts(vllm="0.29.0", values={"tool-call-parser": ("ours",)})
    assert "value" not in recipes.found(args, known=known)
    other = replace(known, values={"tool-call-parser": ("hermes",)})
    (finding,) = [
        one.finding for one in recipes.judged(args, known=other) if one.rule.id == "value"
    ]
    assert finding.subject == "--tool-call-parser"
    assert finding.fix.endswith("one of these: hermes")


def test_a_parser_of_a_plugin_is_not_looked_up(recipes: Recipes) -> None:
    args = _args(tool_call_parser="ours", tool_parser_plugin="/models/ours.py")
    assert "value" not in recipes.found(args, known=ObservedFacts(vllm="0.29.0"))


@pytest.mark.parametrize(
    ("variables", "reported"),
    [
        ({}, "info"),
        ({"engine_image": "eugr/spark-vllm-b12x:latest"}, None),
        ({"engine_mods": ["spark-vllm-docker/mods/fix"]}, None),
    ],
)
def test_a_fork_or_a_mod_may_read_variables_of_its_own(
    recipes: Recipes, variables: dict[str, Any], reported: str | None
) -> None:
    recipe = {"vllm_model": "a", "vllm_env": {"VLLM_OF_A_FORK": "1"}, **variables}
    assert recipes.found(recipe).get("variable") == reported

"""Every spelling of an option of `vllm serve` is read as the same option."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import InputError
from sparkfleet.fit.options import parse_serve_options
from sparkfleet.model import Host, Value
from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.recipes.rules import apply_rules, build_rule_context
from sparkfleet.recipes.settings import Settings
from sparkfleet.vllm.arguments import format_vllm_args
from sparkfleet.vllm.numbers import parse_human_readable_int
from sparkfleet.vllm.option_names import SHORT_NAMES
from sparkfleet.vllm.options import VllmOptions, parse_word, read_command_line, read_vllm_options
from sparkfleet.vllm.owned_options import find_owned_option
from sparkfleet.vllm.releases import load_release_table

DRAFT = {"method": "mtp", "num_speculative_tokens": 2}
# Each option that the rules and the memory estimate read, with a value that shows
READ = {
    "gpu-memory-utilization": 0.8,
    "kv-cache-dtype": "fp8",
    "kv-cache-memory-bytes": "6G",
    "load-format": "fastsafetensors",
    "max-model-len": 65536,
    "max-num-batched-tokens": 4096,
    "max-num-seqs": 4,
    "moe-backend": "marlin",
    "quantization": "fp8",
    "speculative-config": DRAFT,
    "tool-call-parser": "hermes",
}
FLAGS = (
    "enable-auto-tool-choice",
    "enable-chunked-prefill",
    "enforce-eager",
    "trust-remote-code",
)


def _spell_value(name: str, value: Any) -> list[tuple[dict[str, Any], list[str]]]:
    """Return every spelling of an option, as `vllm_args` and `vllm_raw_args`."""
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    keys = [name, name.replace("-", "_"), f"--{name}"]
    words = [f"--{name}", f"--{name.replace('-', '_')}"]
    for short in (short for short, long in SHORT_NAMES.items() if long == name):
        keys += [short, f"-{short}"]
        words += [f"-{short}"]
    spellings: list[tuple[dict[str, Any], list[str]]]
    spellings = [({key: given}, []) for key in keys for given in (value, text)]
    spellings += [({}, [word, text]) for word in words] + [
        ({}, [f"{word}={text}"]) for word in words
    ]
    spellings += [({name: None}, [words[0], text]), ({name: "1"}, [words[0], text])]
    if isinstance(value, dict):
        dotted = {f"{name}.{key}": item for key, item in value.items()}
        spellings += [(dotted, []), ({}, [f"--{key}={item}" for key, item in dotted.items()])]
        spellings += [({}, [word for key in dotted for word in (f"--{key}", str(dotted[key]))])]
        dashed = {key.replace("_", "-"): item for key, item in value.items()}
        spellings += [({name: dashed}, []), ({}, [words[0], json.dumps(dashed)])]
        spellings += [({name: {"method": "other"}, **dotted}, [])]
        spellings += [({"spec_method": "mtp", "spec-tokens": 2}, [])]
        spellings += [({name: {"method": "mtp"}}, ["--spec-tokens", "2"])]
    return spellings


SPELLINGS = [
    (name, args, words) for name in READ for args, words in _spell_value(name, READ[name])
] + [
    spelling
    for name in FLAGS
    for spelling in (
        (name, {name: True}, []),
        (name, {name.replace("-", "_"): True}, []),
        (name, {}, [f"--{name}"]),
        (name, {}, [f"--{name}", "--max-logprobs", "5"]),
        (name, {name: False}, [f"--{name.replace('-', '_')}"]),
        (name, {f"no-{name}": True}, [f"--{name}"]),
    )
]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    path = tmp_path_factory.mktemp("recipes") / "made.yml"
    path.write_text("vllm_model: nvidia/Gemma-4-26B-A4B-NVFP4\ncheckpoint: {format: modelopt}\n")
    return load_recipe(str(path))


def _find_broken_rules(
    recipe: Recipe, args: Mapping[str, Any], words: Sequence[str]
) -> set[tuple[str, str]]:
    given = {"vllm_args": Value(data=args), "vllm_raw_args": Value(data=words)}
    settings = Settings(host=Host(name="spark-01", vars={**recipe.vars, **given}))
    results = apply_rules(build_rule_context(recipe, settings))
    return {(one.rule.id, one.finding.subject) for one in results if one.rule.id != "twice"}


def _read(args: Mapping[str, Any], words: Sequence[str]) -> VllmOptions:
    return read_vllm_options(args, words)


@pytest.mark.parametrize(("name", "args", "words"), SPELLINGS)
def test_every_spelling_gives_the_same_estimate_and_findings(
    name: str, args: dict[str, Any], words: list[str], recipe: Recipe
) -> None:
    plain = {name: READ.get(name, True)}
    assert parse_serve_options(_read(args, words)) == parse_serve_options(_read(plain, ()))
    assert _find_broken_rules(recipe, args, words) == _find_broken_rules(recipe, plain, ())


@pytest.mark.parametrize(("name", "args", "words"), SPELLINGS)
def test_a_command_line_that_is_rendered_is_read_as_the_variables(
    name: str, args: dict[str, Any], words: list[str]
) -> None:
    rendered = read_command_line([*format_vllm_args(args), *words])
    assert parse_serve_options(rendered) == parse_serve_options(_read(args, words))
    assert rendered.by_name().keys() == _read(args, words).by_name().keys()


def test_every_short_name_is_one_of_a_release() -> None:
    releases = load_release_table("options").spans
    assert [long for long in SHORT_NAMES.values() if long not in releases] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-n2"], {"nnodes": "2"}),
        (["-qfp8"], {"quantization": "fp8"}),
        (["-q=fp8"], {"quantization": "fp8"}),
        (["-as", "2"], {"api-server-count": "2"}),
        (["-s", '{"a": 1}'], {"speculative-config": '{"a": 1}'}),
        (["-e"], {"enable-expert-parallel": True}),
        (["-d", "2"], {"d": "2"}),
        (["-O3"], {"optimization-level": "3"}),
        (["-O=3"], {"optimization-level": "3"}),
        (["-O", "3"], {"optimization-level": "3"}),
        (["-O", '{"level": 3}'], {"compilation-config": '{"level": 3}'}),
        (["-O.level=3"], {"compilation-config": {"level": 3}}),
        (["-ep", "-tp", "2"], {"enable-expert-parallel": True, "tensor-parallel-size": "2"}),
        (["--no-enable-prefix-caching"], {"enable-prefix-caching": False}),
        (["--max-model-len", "-1"], {"max-model-len": "-1"}),
        (["--max-model", "1"], {"max-model-len": "1"}),
        (["--lora-modules", "a=/a", "b=/b"], {"lora-modules": ["a=/a", "b=/b"]}),
        (["--middleware", "a.A", "--middleware=b.B"], {"middleware": ["a.A", "b.B"]}),
        (["--seed", "1", "--seed", "2"], {"seed": "2"}),
        (["--chat-template", "- a b"], {"chat-template": "- a b"}),
        (["--compilation_config.cudagraph_capture_sizes+", "1,2"],
         {"compilation-config": {"cudagraph_capture_sizes": ["1", "2"]}}),
        (["--hf-overrides.a.b", "64k", "--hf-overrides.a.c=x"],
         {"hf-overrides": {"a": {"b": 64000, "c": "x"}}}),
        (["vllm", "serve", "/weights/a", "--seed", "1"], {"seed": "1"}),
    ],
)  # fmt: skip
def test_words_are_read_as_vllms_parser_reads_them(
    words: list[str], expected: dict[str, Any]
) -> None:
    assert read_command_line(words).by_name() == expected


def test_the_items_of_repeat_are_options_of_their_own() -> None:
    assert _read({"seed": {"repeat": [1, 2]}}, ()).value("seed") == 2
    assert _read({"middleware": {"repeat": ["a", "b"]}}, ()).value("middleware") == ["a", "b"]


@pytest.mark.parametrize(
    ("written", "value", "name"),
    [
        ("no-enforce-eager", True, "enforce-eager"),
        ("no_enforce_eager", None, "enforce-eager"),
        ("--no-enforce-eag", "true", "no-enforce-eag"),
        ("enforce_eager", "true", "enforce-eager"),
    ],
)
def test_a_negation_has_the_plain_name_of_its_option(written: str, value: Any, name: str) -> None:
    (option,) = _read({written: value}, ())
    assert (option.name, option.plain_name) == (name, "enforce-eager")


@pytest.mark.parametrize("text", ["", "None"])
def test_what_vllm_reads_as_no_value_leaves_an_optional_option_unset(
    text: str, recipe: Recipe
) -> None:
    names = ("quantization", "speculative-config", "kv-cache-memory-bytes", "attention-backend")
    args = dict.fromkeys(names, text)
    assert _read(args, ()).by_name() == {}
    assert _read({}, ["-q", "fp8", f"--quantization={text}"]).by_name() == {}
    assert parse_serve_options(_read(args, ())) == parse_serve_options(_read({}, ()))
    assert _find_broken_rules(recipe, args, ()) == _find_broken_rules(recipe, {}, ())
    required = {"max-num-seqs": text, "compilation-config": text}
    assert _read(required, ()).by_name() == required
    broken = {("number", "--max-num-seqs"), ("json", "--compilation-config")}
    assert broken <= _find_broken_rules(recipe, required, ())


def test_the_tokens_of_a_draft_are_a_number_in_every_spelling() -> None:
    words = ["--spec-method", "mtp", "--spec-tokens", "9"]
    expected = {"method": "mtp", "num_speculative_tokens": 9}
    assert _read({}, words).speculative_config == expected
    assert _read({"spec-method": "mtp", "spec_tokens": 9}, ()).speculative_config == expected
    many = _read({"spec-tokens": "many"}, ()).speculative_config
    assert many == {"num_speculative_tokens": "many"}


def test_null_leaves_an_option_unset() -> None:
    options = _read({"seed": None}, ())
    assert options.find("seed") is None
    assert [option.name for option in options] == ["seed"]


def test_each_option_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "made.yml"
    path.write_text(
        "vllm_model: a\nvllm_args:\n  seed: 1\n  sc.method: mtp\n"
        "vllm_raw_args:\n  - --max-num-seqs\n  - '4'\n  - -q=fp8\n"
    )
    settings = Settings(host=Host(name="spark-01", vars=load_recipe(str(path)).vars))
    places = {option.written: str(option.where) for option in settings.vllm_options}
    assert places == {
        "seed": f"{path}:3:3",
        "sc.method": f"{path}:4:3",
        "--max-num-seqs": f"{path}:6:5",
        "-q": f"{path}:8:5",
    }


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("65536", 65536), ("64K", 65536), ("64k", 64000), ("25.6k", 25600), ("2G", 2 << 30)),
        *(("+16", 16), ("65_536", 65536)),
    ],
)
def test_integers_are_read_with_vllms_suffixes(text: str, number: int) -> None:
    assert parse_human_readable_int(text) == number


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("16", 16), ("-1", -1), ("0.90", 0.9), ("[1, 2]", [1, 2]), ('{"a": "b"}', {"a": "b"})),
        *((word, word) for word in ("007", "1e5", "123e456", "NaN", "true", "null", "64K", "{a}")),
        *((word, word) for word in (" 5", '"a"', "", "0.9.1", "1_000")),
        (True, True),
    ],
)
def test_a_word_is_a_number_or_json_only_where_nothing_of_it_is_lost(word: Any, value: Any) -> None:
    parsed = parse_word(word)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        "1.5K",
        "1.5",
        "-1",
        "many",
        "",
        "1__6",
        "_1",
        "1_6K",
        pytest.param("9" * 400, id="400 digits"),
    ],
)
def test_what_vllm_does_not_read_as_an_integer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected an integer"):
        parse_human_readable_int(text)


@pytest.mark.parametrize(
    ("args", "number"),
    [
        ({}, None),
        ({"max_model_len": "64K"}, 65536),
        ({"max-model-len": "auto"}, None),
        ({"max-model-len": -1}, None),
        ({"max-model-len": " AUTO "}, None),
        ({"max-num-seqs": -1}, -1),
        ({"max-num-seqs": "+1_0"}, 10),
        ({"max-num-seqs": True}, None),
        ({"max-num-seqs": "many"}, None),
        ({"max-num-seqs": "16K"}, None),
        ({"max-num-seqs": [4]}, 4),
        ({"max-num-batched-tokens": "16K"}, 16384),
        ({"of-a-fork": "16K"}, 16384),
    ],
)
def test_the_integer_of_an_option_is_read_as_vllm_reads_it(
    args: dict[str, Any], number: int | None
) -> None:
    name = next((key.replace("_", "-") for key in args), "max-model-len")
    assert _read(args, ()).integer(name) == number


@pytest.mark.parametrize("text", ["auto", "AUTO", " Auto ", "-1", -1, " -1"])
def test_the_longest_that_fits_is_written_as_vllm_takes_it(text: Any, recipe: Recipe) -> None:
    options = parse_serve_options(_read({"max-model-len": text}, ()))
    assert (options.length, options.auto_length) == (None, True)
    args = {"max-model-len": text}
    assert _find_broken_rules(recipe, args, ()) == _find_broken_rules(recipe, {}, ())


@pytest.mark.parametrize(
    ("args", "share"),
    [({}, 0.92), ({"gpu_memory_utilization": "0.7"}, 0.7), ({"gpu-memory-utilization": 1}, 1.0)],
)
def test_the_share_of_memory_is_what_is_given_or_vllms_default(
    args: dict[str, Any], share: float
) -> None:
    assert _read(args, ()).memory_utilization == share
    assert parse_serve_options(_read(args, ())).util == share


@pytest.mark.parametrize("value", [0, -0.5, 85, True, "most", "nan", [0.7, 0.8]])
def test_what_is_not_a_share_of_memory_is_refused_in_each_place(value: Any, recipe: Recipe) -> None:
    args = {"gpu-memory-utilization": value}
    with pytest.raises(ValueError, match="> 0 and <= 1"):
        _read(args, ()).fraction("gpu-memory-utilization")
    with pytest.raises(InputError, match="gpu-memory-utilization: expected a number"):
        parse_serve_options(_read(args, ()))
    assert ("utilization", "--gpu-memory-utilization") in _find_broken_rules(recipe, args, ())


@pytest.mark.parametrize(
    "word",
    [
        *("-q", "-qfp8", "--max-num-seqs=4", "-O3", "-sc", "--seed"),
        *("--mode", "--m", "-m", "-s", "-as", "--model-impl", "--d", "-x", "--", "-"),
    ],
)
def test_options_of_the_user_are_not_owned(word: str) -> None:
    assert find_owned_option(word) == ""

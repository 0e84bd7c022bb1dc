"""Recipes of eugr, sparkrun, spark-pulse and NVIDIA: 47 files with the facts of public ones."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkfleet.cli.recipes.validate import run_recipe_rules
from sparkfleet.errors import RecipeError
from sparkfleet.launch.staged_paths import build_user_arguments
from sparkfleet.model import Host
from sparkfleet.recipes.extends import read_recipe_tree
from sparkfleet.recipes.foreign.document import format_imported_recipe
from sparkfleet.recipes.foreign.draft import ConvertedMap
from sparkfleet.recipes.foreign.export import export_recipe
from sparkfleet.recipes.foreign.formats import Format
from sparkfleet.recipes.foreign.placeholders import CommandTemplate
from sparkfleet.recipes.foreign.words import Word
from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.recipes.settings import Settings
from sparkfleet.vllm.options import read_vllm_options
from sparkfleet.vllm.owned_options import OWNED_OPTIONS
from sparkfleet.yaml.positions import Scalar, load_yaml
from tests.documents import SEEDS
from tests.variations import keep_some

FOLDER = SEEDS / "recipes-of-others"
FORMATS = {"eugr": "eugr", "sparkrun": "sparkrun", "spark-pulse": "spark-pulse", "nvidia": "NVIDIA"}
FILES = sorted(path for folder in FORMATS for path in (FOLDER / folder).glob("*.yaml"))
IDS = [f"{path.parent.name}/{path.stem}" for path in FILES]
REFUSED = {
    "eugr-duplicate-key": (7, 1, "duplicate key 'container'"),
    "nvidia-llama-cpp": (6, 10, "backend: expected vllm (got 'llama-cpp')"),
    "spark-pulse-embedding": (5, 9, "serves: 'embedding' is not served"),
    "spark-pulse-llama-cpp": (5, 9, "engine: expected vllm (got 'llama-cpp')"),
    "sparkrun-sglang": (4, 10, "runtime: expected one of vllm"),
}
PIPELINE = ("3x-qwen3.5-397b-int4-autoround",)  # its three stages are given at the start
SHORT = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size"}
CACHED_DRAFT = re.compile(r'"model":"/[^"]*/models--([^"-]+)--([^"]+)/snapshots/([0-9a-f]{40})"')
SHELL = re.compile(r"\\\s*\n")
EUGR = """\
recipe_version: "1"
name: small
container: vllm-node
defaults:
  port: 8000
command: |
  vllm serve org/Small --port {port}
"""
SPARKRUN = """\
recipe_version: "2"
model: org/Small
runtime: vllm
container: vllm/vllm-openai:v0.28.0
defaults:
  max_model_len: 65536
command: |
  vllm serve {model} --max-model-len {max_model_len}
"""


def _data(recipe: Recipe, name: str, default: Any = None) -> Any:
    return recipe.vars[name].data if name in recipe.vars else default


def _text(path: Path) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load(path.read_text())
    return tree


def _command(tree: Mapping[str, Any], kind: str) -> list[str]:
    """Return the words of the command as Python's own tools read them."""
    if kind == "NVIDIA":
        text = tree["serve"]["command"]
    elif kind == "spark-pulse":
        (engine,) = tree["engines"].values()
        text = engine["args"].format(**tree["params"])
    elif kind == "eugr" or "{{" in tree["command"]:
        solo = {"tensor_parallel": 1} if tree.get("solo_only") else {}
        text = tree["command"].format(**{**tree["defaults"], **solo, "model": tree["model"]})
    else:
        text = tree["command"]
        for name, value in {**tree["defaults"], "model": tree["model"]}.items():
            text = text.replace(f"{{{name}}}", str(value))
    return shlex.split(SHELL.sub(" ", text), comments=True)


def _options(words: list[str]) -> dict[str, Any]:
    """Return options by their long names, of those that sparkfleet does not set itself."""
    options: dict[str, Any] = {}
    starts = [at for at, word in enumerate(words) if re.match(r"--?[a-z]", word)]
    for at, end in zip(starts, [*starts[1:], len(words)], strict=True):
        name, _, value = words[at].lstrip("-").partition("=")
        head, _, key = name.partition(".")
        head = head.replace("_", "-")
        more = words[at + 1 : end]
        text: Any = value or (more if len(more) > 1 else "".join(more)) or True
        head = SHORT.get(head, head)
        if key:
            options.setdefault(head, {})[key] = text
        elif head.startswith("no-"):
            options[head.removeprefix("no-")] = False
        else:
            options[head] = text
    ours = {*OWNED_OPTIONS, "revision"}  # weights_revision
    return {name: value for name, value in options.items() if name not in ours}


def _normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _normal(item) for key, item in value.items()}
    if isinstance(value, str):
        value = CACHED_DRAFT.sub(r'"model":"\1/\2","revision":"\3"', value)
        try:
            return _normal(json.loads(value))
        except ValueError:
            return value
    if isinstance(value, list):
        return [_normal(item) for item in value]
    return value if value is None or isinstance(value, bool) else float(value)


def test_at_least_thirty_files_of_others_are_compared() -> None:
    assert len(FILES) >= 30
    assert {path.parent.name for path in FILES} == set(FORMATS)


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_file_of_others_is_recognized_and_has_all_its_options(path: Path) -> None:
    recipe = load_recipe(str(path))
    kind = FORMATS[path.parent.name]
    assert recipe.format == kind
    ours = {name: _normal(value) for name, value in _data(recipe, "vllm_args").items()}
    tree = _text(path)
    theirs = {name: _normal(value) for name, value in _options(_command(tree, kind)).items()}
    if kind == "spark-pulse":
        neutral = ("gpu_memory_utilization", "max_model_len", "max_num_batched_tokens")
        for name in (*neutral, "max_num_seqs"):
            if name in tree["params"]:
                theirs.setdefault(name.replace("_", "-"), float(tree["params"][name]))
    assert ours == theirs


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_file_of_others_has_its_model_and_every_value_has_a_line_of_it(path: Path) -> None:
    recipe = load_recipe(str(path))
    text = path.read_text()
    assert _data(recipe, "vllm_model") in text
    lines = text.splitlines()
    for value in recipe.vars.values():
        for where in (value.where, *value.entries.values()):
            assert where is not None
            assert Path(where.file).name == path.name
            assert 1 <= (where.line or 0) <= len(lines)


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_an_import_reads_as_the_file_that_it_is_from(path: Path, tmp_path: Path) -> None:
    tree = read_recipe_tree(path)
    assert isinstance(tree, ConvertedMap)
    copy = tmp_path / "copy.yml"
    copy.write_text(format_imported_recipe(tree))
    imported = load_recipe(str(copy))
    source = load_recipe(str(path))
    assert imported.format == ""
    assert {name: value.data for name, value in imported.vars.items()} == {
        name: value.data for name, value in source.vars.items()
    }
    assert (imported.tp_min, imported.tp_max) == (source.tp_min, source.tp_max)


@pytest.mark.parametrize("target", ["eugr", "sparkrun"])
@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_an_export_reads_as_what_was_exported(path: Path, target: str, tmp_path: Path) -> None:
    source = load_recipe(str(path))
    copy = tmp_path / "copy.yaml"
    copy.write_text(export_recipe(source, Format(target)).text)
    again = load_recipe(str(copy))
    assert again.format == target
    for name in ("vllm_model", "vllm_args", "weights_drafts", "engine_mods", "vllm_served_name"):
        assert _data(again, name) == _data(source, name), name
    env = dict(_data(source, "vllm_env", {}))
    launcher = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if target == "eugr" else {}
    assert _data(again, "vllm_env", {}) == launcher | env
    if path.stem not in PIPELINE:
        assert again.tp_max == source.tp_max


@pytest.mark.parametrize("target", ["eugr", "sparkrun"])
def test_an_export_names_options_as_a_start_does(target: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    path.write_text(
        "description: a model\nsource: a card\nvllm_model: org/model\n"
        "vllm_args:\n  max_model_len: 4096\n  q: fp8\n"
        "  compilation_config.use_inductor: false\n  some-text: '-1'\n"
    )
    text = export_recipe(load_recipe(str(path)), Format(target)).text
    assert "--max-model-len {max_model_len} \\" in text
    assert "max_model_len: 4096" in text
    assert "--quantization fp8" in text
    assert "--compilation-config.use_inductor false" in text
    assert "--some-text=-1" in text


@pytest.mark.parametrize("target", ["eugr", "sparkrun"])
def test_an_export_has_raw_words_after_the_options(target: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    template = 'it\'s {a} "b" $HOME'
    words = ["-O3", "--max-num-seqs", "4", "--chat-template", template]
    words += ["--allowed-origins", "a", "b c"]
    content = {
        "description": "a",
        "source": "b",
        "vllm_model": "org/model",
        "engine_image": "a/b:1",
        "vllm_args": {"seed": 1},
        "vllm_raw_args": words,
    }
    path.write_text(yaml.safe_dump(content))
    export = export_recipe(load_recipe(str(path)), Format(target))
    assert "--seed 1 \\\n    -O3 \\\n    --max-num-seqs 4 \\\n" in export.text
    assert not any("vllm_raw_args" in text for text in export.left_out)
    copy = tmp_path / "copy.yaml"
    copy.write_text(export.text)
    assert read_vllm_options(_data(load_recipe(str(copy)), "vllm_args")).by_name() == {
        "seed": 1,
        "optimization-level": 3,
        "max-num-seqs": 4,
        "chat-template": template,
        "allowed-origins": ["a", "b c"],
    }


@pytest.mark.parametrize(
    ("word", "target", "expected"),
    [
        ("@MODEL@/x", "eugr", "vllm_raw_args has @MODEL@, the folder of the weights"),
        ("{{ lookup('env', 'X') }}", "sparkrun", "vllm_raw_args has a value that only this"),
        ("{port}", "sparkrun", "vllm_raw_args has {port}, which sparkrun replaces"),
    ],
)
def test_raw_words_that_another_tool_cannot_have_are_left_out(
    word: str, target: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.yml"
    path.write_text(yaml.safe_dump({"vllm_model": "a/b", "vllm_raw_args": ["--x", word]}))
    export = export_recipe(load_recipe(str(path)), Format(target))
    assert "--x" not in export.text
    assert any(text.startswith(expected) for text in export.left_out)


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_the_rules_apply_to_a_file_of_others(path: Path) -> None:
    for finding in run_recipe_rules(load_recipe(str(path))):
        where = finding.problem.where
        assert where is None or Path(where.file).name == path.name


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_file_of_others_becomes_a_command_line(path: Path) -> None:
    recipe = load_recipe(str(path))
    settings = Settings(host=Host(name="one", vars=recipe.vars))
    drafts = dict.fromkeys(_data(recipe, "weights_drafts", []), "hub/draft")
    words = build_user_arguments(settings, "/weights", "/weights/model", drafts)
    names = {word.partition("=")[0].removeprefix("--no-").removeprefix("--") for word in words}
    assert names >= {name.partition(".")[0] for name in _data(recipe, "vllm_args")}


def test_a_folder_of_the_cache_of_others_is_the_model_at_its_commit() -> None:
    recipe = load_recipe(str(FOLDER / "eugr" / "minimax-m3-nvfp4-dspark-cached.yaml"))
    assert _data(recipe, "vllm_model") == "nvidia/MiniMax-M3-NVFP4"
    assert _data(recipe, "weights_revision") == "901464083161bf8612a29ff7ad29914cd4ab4a85"
    draft = "nvidia/MiniMax-M3-DSpark@e82db0e1895bc4e0c339ce670b2b553899a57f59"
    assert _data(recipe, "weights_drafts") == [draft]
    assert not any("path on the machine of its author" in text for text in recipe.advice)


@pytest.mark.parametrize(
    "file",
    ["eugr/minimax-m3-nvfp4-dspark", "sparkrun/glm-5.3-flash-exl3-vllm-gitcommit90"],
)
def test_a_draft_is_staged_at_the_commit_that_the_file_gives(file: str) -> None:
    (draft,) = _data(load_recipe(str(FOLDER / f"{file}.yaml")), "weights_drafts")
    assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", draft)


def test_a_file_without_a_version_is_read_as_version_1() -> None:
    recipe = load_recipe(str(FOLDER / "eugr" / "spark-pulse-minimax-m2-awq.yaml"))
    assert recipe.advice[0].startswith("recipe_version is missing, and is read as 1 (")


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_file_that_cannot_be_served_is_refused_at_its_place(name: str) -> None:
    line, col, message = REFUSED[name]
    path = FOLDER / "refused" / f"{name}.yaml"
    with pytest.raises(RecipeError) as failure:
        load_recipe(str(path))
    problem = failure.value.problems[0]
    assert message in problem.message
    assert problem.where is not None
    assert (problem.where.line, problem.where.col) == (line, col)
    assert problem.where.file.endswith(f"{name}.yaml")


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        (EUGR.replace("name: small\n", ""), "missing name", (1, 1)),
        (EUGR.replace("vllm-node", "[vllm-node]"), "container: expected text", (3, 12)),
        (EUGR.replace("\n  port: 8000", " [8000]"), "defaults: expected a mapping", (4, 11)),
        (EUGR.replace("{port}", "{prot}"), "the command uses {prot}", (7, 31)),
        (EUGR.replace("{port}", "{port"), "a single {", (7, 31)),
        (EUGR.replace("{port}", "'{port}"), "a ' that is not closed", (7, 31)),
        (EUGR.replace("vllm serve", "python serve.py"), "expected one `vllm serve`", (6, 10)),
        (EUGR + "mods: fix\n", "mods: expected a list (got 'fix')", (8, 7)),
        (EUGR + "solo_only: maybe\n", "solo_only: expected true or false", (8, 12)),
        (EUGR.replace('"1"', '"3"'), "recipe_version: expected one of 1, 2 (got '3')", (1, 17)),
        (SPARKRUN.replace("model: org/Small\n", ""), "missing model", (1, 1)),
        (SPARKRUN.replace("runtime: vllm", "runtime: trtllm"), "runtime: expected", (3, 10)),
        (SPARKRUN + "min_nodes: two\n", "min_nodes: expected an integer >= 1", (9, 12)),
        (
            SPARKRUN.replace("{model} --", "{model} -tp two --"),
            "--tensor-parallel-size: expected an integer from 1 to 9999 (got 'two')",
            (8, 26),
        ),
        (SPARKRUN + "include: base\n", "include: base not found next to this file", (9, 10)),
        (SPARKRUN + "metadata: []\n", "metadata: expected a mapping", (9, 11)),
        ("schema_version: 7\nserve: {}\n", "schema_version: expected 3 or 4 (got 7)", (1, 17)),
        ("schema_version: 4\ntitle: T\n", "missing hardware", (1, 1)),
        (
            "schema_version: 4\ntitle: T\nhardware: rtx-pro\nbackend: vllm\nserve: {command: x}\n",
            "hardware: expected dgx-spark",
            (3, 11),
        ),
        (
            'recipe_version: "2"\nname: n\nmodel: a/b\nengines: {vllm: {args: 3, image: i}}\n',
            "engines.vllm.args: expected text or a list (got 3)",
            (4, 24),
        ),
        ('recipe_version: "2"\nname: n\nmodel: a/b\nparams: {}\n', "missing engines.vllm", (1, 1)),
        (
            'recipe_version: "2"\nname: n\nmodel: a/b\nengine: vllm\nengines: {sglang: {}}\n',
            "missing engines.vllm",
            (1, 1),
        ),
    ],
)
def test_a_bad_file_is_refused_at_its_place(
    text: str, message: str, place: tuple[int, int], tmp_path: Path
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as failure:
        load_recipe(str(path))
    problem = failure.value.problems[0]
    assert message in problem.message
    assert problem.where is not None
    assert (problem.where.line, problem.where.col) == place


@pytest.mark.parametrize("path", keep_some(FILES, 14), ids=IDS)
def test_every_damaged_key_is_read_or_refused_with_its_place(path: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.yaml"
    for key in (keys := _text(path)):
        for value in (None, [3], {"a": [None]}, "{{ x", "a 'b"):
            content = {**keys, key: value}
            damaged.write_text(yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False))
            try:
                load_recipe(str(damaged))
            except RecipeError as error:
                for problem in error.problems:
                    assert problem.where is not None
                    assert problem.where.line


def test_workers_with_other_options_are_refused(tmp_path: Path) -> None:
    text = (FOLDER / "nvidia" / "minimax-m2.7-dgx-spark-2gpu.yaml").read_text()
    head, worker = text.split("additional_commands")
    path = tmp_path / "recipe.yaml"
    path.write_text(head + "additional_commands" + worker.replace("196608", "4096"))
    with pytest.raises(RecipeError, match=r"the workers' command differs.*--max-model-len"):
        load_recipe(str(path))


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ("container: i\ncommand: vllm serve a/b\nname: n\n", "eugr"),
        ("container: i\ncommand: vllm serve a/b\nmodel: a/b\nmin_nodes: 1\n", "sparkrun"),
        ("name: n\nmodel: a/b\nengines: {vllm: {image: i}}\n", "spark-pulse"),
    ],
)
def test_a_bare_2_is_read_by_the_other_keys(keys: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text('recipe_version: "2"\n' + keys)
    assert load_recipe(str(path)).format == kind


def test_a_recipe_of_sparkfleet_is_not_converted(tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    path.write_text("vllm_model: a/b\nengine: docker\n")
    assert load_recipe(str(path)).format == ""


def test_a_value_is_at_its_default_and_not_at_the_placeholder(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SPARKRUN)
    where = load_recipe(str(path)).vars["vllm_args"].entries["max-model-len"]
    assert (where.line, where.col) == (6, 18)


def test_what_has_no_counterpart_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(
        SPARKRUN.replace("{model}", "{model} --host 10.0.0.1 --api-key k -q {nothing}")
        + "pre_exec: [pip install x]\noverrides: [{when: {nodes: 2}, env: {A: 1}}]\nlayout: wide\n"
        "env: {HF_TOKEN: t, CACHE: $HOME/x}\n"
    )
    recipe = load_recipe(str(path))
    advice = "\n".join(recipe.advice)
    for part in (
        "--host 10.0.0.1 is left out: set vllm_host",
        "--api-key is left out",
        "{nothing} has no value",
        "pre_exec is left out: '[\"pip install x\"]'",
        "overrides[0] does not apply to 1 Spark, and is left out: nodes 2",
        "layout has no counterpart",
        "HF_TOKEN is left out",
        "CACHE is left out: its value $HOME/x needs a shell",
    ):
        assert part in advice, part
    assert "vllm_env" not in recipe.vars


def test_words_become_numbers_only_where_their_text_stays_the_same(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    words = "-tp +2 --tokenizer-revision 0012345 --code-revision 12e45 --seed 7"
    path.write_text(SPARKRUN.replace("{model} --", f"{{model}} {words} --"))
    recipe = load_recipe(str(path))
    assert recipe.tp_max == 2
    assert _data(recipe, "vllm_args") == {
        "tokenizer-revision": "0012345",
        "code-revision": "12e45",
        "seed": 7,
        "max-model-len": 65536,
    }


def test_another_command_of_a_script_is_not_run_and_named(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(EUGR.replace("  vllm serve", "  pip install x\n  export A=1\n  vllm serve"))
    recipe = load_recipe(str(path))
    assert "the command runs 'pip install x' in the container" in "\n".join(recipe.advice)
    assert _data(recipe, "vllm_env")["A"] == "1"


def test_text_with_braces_is_never_a_template(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(EUGR.replace("{port}", "8000 --chat-template '{{{{ 7 * 7 }}}}'"))
    recipe = load_recipe(str(path))
    copy = tmp_path / "copy.yml"
    tree = read_recipe_tree(path)
    assert isinstance(tree, ConvertedMap)
    copy.write_text(format_imported_recipe(tree))
    for each in (recipe, load_recipe(str(copy))):
        value = _data(each, "vllm_args")["chat-template"]
        assert (str(value), type(value).__name__) == ("{{ 7 * 7 }}", "Unsafe")


def test_an_own_recipe_replaces_values_of_one_of_others(tmp_path: Path) -> None:
    (tmp_path / "theirs.yaml").write_text(SPARKRUN)
    (tmp_path / "mine.yml").write_text("extends: theirs.yaml\nvllm_model: me/Other\n")
    recipe = load_recipe(str(tmp_path / "mine.yml"))
    assert _data(recipe, "vllm_model") == "me/Other"
    assert _data(recipe, "vllm_args") == {"max-model-len": 65536}
    assert recipe.format == "sparkrun"


def test_a_placeholder_that_names_itself_without_end_is_refused() -> None:
    """Eight rounds of eight copies each took all memory."""
    value = load_yaml('"' + "{x} " * 40 + '"', file="r.yaml")
    assert isinstance(value, Scalar)
    template = CommandTemplate({"x": value}, strict=False, doubled=False)
    with pytest.raises(RecipeError, match="more than 1,000,000 characters"):
        template.expand(Word(raw="{x}", place=value))


@pytest.mark.parametrize(
    ("port", "taken"), [("8123", 8123), ("9" * 5000, None)], ids=["a port", "no port"]
)
def test_a_port_of_thousands_of_digits_is_none(
    port: str, taken: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(SPARKRUN.replace("vllm serve {model}", f"vllm serve {{model}} --port {port}"))
    assert _data(load_recipe(str(path)), "vllm_port") == taken

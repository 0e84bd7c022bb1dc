"""Allowed names and texts in inventories, recipes, --set and results of templates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import InputError, InventoryError, Problem, RecipeError, TemplateError
from sparkfleet.inventory.clusters import choose_cluster
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.inventory.variable_checks import validate_value
from sparkfleet.launch.deployment import secrets
from sparkfleet.launch.deployment.deployment import hash_deployment
from sparkfleet.model import Host, Value
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.recipes.settings import Settings, overlay_recipe
from sparkfleet.templating import render_value
from sparkfleet.variables import VARIABLES, Kind

CONTROLS = ("\0", "\x07", "\x1b", "\r", "\x7f", "\x9b", "\x85")
ONE_LINE = [
    name for name, row in VARIABLES.items() if row.kind in (Kind.TEXT, Kind.LIST) and not row.lines
]


def _problems(tmp_path: Path, text: str, **given: Any) -> tuple[Problem, ...]:
    path = tmp_path / "i.yml"
    path.write_text(text)
    with pytest.raises(InventoryError) as caught:
        choose_cluster(load_inventory([str(path)], extra_vars=given))
    return caught.value.problems


def _inventory(variables: str) -> str:
    return f"sparks:\n  hosts: {{spark1: }}\n  vars:\n{variables}"


@pytest.mark.parametrize("name", ["vllm_env", "nccl_env"])
@pytest.mark.parametrize(
    "key", ["A; touch X", "1A", "A B", "", "A=B", "\N{LATIN SMALL LETTER E WITH ACUTE}"]
)
@pytest.mark.parametrize("value", ["1", "null", "\"{{ lookup('env', 'HOME') }}\""])
def test_a_name_that_is_none_is_refused_at_its_place(
    name: str, key: str, value: str, tmp_path: Path
) -> None:
    text = _inventory(f"    {name}:\n      GOOD: 1\n      {json.dumps(key)}: {value}\n")
    result = _problems(tmp_path, text)
    shown = json.dumps(key, ensure_ascii=False)
    assert f"{name}: invalid variable name {shown} (letters, digits and _ only" in result[0].message
    (where,) = {problem.where for problem in result}
    assert where
    assert (where.file, where.line, where.col) == (str(tmp_path / "i.yml"), 6, 7)


def test_the_message_is_plain(tmp_path: Path) -> None:
    (result,) = _problems(tmp_path, _inventory('    vllm_env: {"A; touch X": "1"}\n'))
    expected = 'vllm_env: invalid variable name "A; touch X" (letters, digits and _ only)'
    assert result.message == expected
    given = _problems(tmp_path, _inventory("    a: 1\n"), vllm_env={"A; touch X": None})
    assert [problem.message for problem in given] == [expected]


@pytest.mark.parametrize(
    "text",
    [
        '    clusters: {a: {hosts: sparks, vars: {vllm_env: {"A;": 1}}}}\n',
        '    clusters: {a: {hosts: sparks, host_vars: {spark1: {nccl_env: {"A;": 1}}}}}\n',
        '    cluster_rank_vars: [{vllm_env: {"A;": null}}]\n',
        "    vllm_env: \"{{ {'A;': 1} }}\"\n",
    ],
)
def test_names_inside_variables_and_templates_are_judged(text: str, tmp_path: Path) -> None:
    assert 'invalid variable name "A;"' in str(_problems(tmp_path, _inventory(text))[0])


def _recipe(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "r.yml"
    path.write_text(f"vllm_model: org/model\n{text}")
    return path


@pytest.mark.parametrize("value", ["1", "null", "\"{{ lookup('env', 'HOME') }}\""])
def test_a_recipe_is_judged_too(value: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(_recipe(tmp_path, f'vllm_env:\n  GOOD: 1\n  "A; touch X": {value}\n')))
    (result,) = caught.value.problems
    assert result.message.startswith('vllm_env: invalid variable name "A; touch X"')
    assert result.where
    assert (result.where.line, result.where.col) == (4, 3)


@pytest.mark.parametrize("key", ["", "--", "a b; rm", "a\nb", " a"])
def test_a_name_that_no_option_has_is_refused_at_its_place(key: str, tmp_path: Path) -> None:
    entry = f"vllm_args:\n  {json.dumps(key)}: 1\n"
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(_recipe(tmp_path, entry)))
    (result,) = caught.value.problems
    assert result.message == (
        f"vllm_args: invalid option name {json.dumps(key)} (one word, with or without dashes)"
    )
    assert result.where
    assert (result.where.line, result.where.col) == (3, 3)
    [found] = _problems(tmp_path, _inventory(f"    vllm_args: {{{json.dumps(key)}: 1}}\n"))
    assert found.message == result.message


@pytest.mark.parametrize("key", ["-O", "--tp", "compilation-config.mode", "a=b", "O"])
def test_any_word_may_be_the_name_of_an_option(key: str, tmp_path: Path) -> None:
    recipe = load_recipe(str(_recipe(tmp_path, f"vllm_args:\n  {json.dumps(key)}: 1\n")))
    assert recipe.path == tmp_path / "r.yml"


@pytest.mark.parametrize("name", ONE_LINE)
@pytest.mark.parametrize("control", [*CONTROLS, "\n", "\t", "\udc9b"])
def test_text_holds_no_control_characters(name: str, control: str) -> None:
    row = VARIABLES[name]
    text = f"a{control}b"
    assert validate_value(row, [text] if row.kind is Kind.LIST else text)


@pytest.mark.parametrize("name", [name for name, row in VARIABLES.items() if row.kind is Kind.TEXT])
def test_every_text_is_refused_by_its_inventory(name: str, tmp_path: Path) -> None:
    for value in (json.dumps("/a\x1bb"), "\"{{ '/a' ~ '\\\\x1b' ~ 'b' }}\""):
        result = _problems(tmp_path, _inventory(f"    {name}: {value}\n"))
        assert any(problem.message.startswith(name) for problem in result)
        assert "\x1b" not in "".join(problem.message for problem in result)
    assert name in _problems(tmp_path, _inventory("    a: 1\n"), **{name: "/a\x1bb"})[0].message


@pytest.mark.parametrize("control", CONTROLS)
def test_text_of_several_lines_holds_no_others(control: str) -> None:
    for name in ("vllm_args", "vllm_env"):
        assert validate_value(VARIABLES[name], {"A": "one\n\ttwo"}) is None
        assert "no control characters" in str(validate_value(VARIABLES[name], {"A": f"a{control}"}))
    assert validate_value(VARIABLES["vllm_args"], {f"a{control}": [1]})
    assert validate_value(VARIABLES["vllm_args"], {"a": {"b": [f"a{control}"]}})
    assert validate_value(VARIABLES["nccl_env"], {"A": "a\nb"})


def test_a_rendered_value_with_braces_is_judged(tmp_path: Path) -> None:
    text = "    vllm_served_name: \"{{ '{' ~ '{ \\\\x1b' }}\"\n"
    assert "no control characters" in _problems(tmp_path, _inventory(text))[0].message


@pytest.mark.parametrize(
    "text",
    [
        'vllm_port: "{{ 1 / 3 }}"',
        'vllm_args: "{{ 7 * 7 }}"',
        "vllm_served_name: \"{{ 'a\\x1b' }}\"",
        "vllm_env: {A: \"{{ 'a\\x00' }}\"}",
    ],
)
def test_what_a_template_of_a_recipe_gives_is_judged(text: str, tmp_path: Path) -> None:
    recipe = load_recipe(str(_recipe(tmp_path, f"{text}\n")))
    with pytest.raises(RecipeError, match="which its template gives") as caught:
        overlay_recipe(Host(name="spark1"), recipe)
    assert caught.value.problems[0].where


def test_the_secret_result_of_a_template_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "hush\x1b")
    for name in ("A", "A_KEY"):
        text = f"vllm_env: {{{name}: \"{{{{ lookup('env', 'MINE') }}}}\"}}\n"
        with pytest.raises(RecipeError) as caught:
            overlay_recipe(Host(name="spark1"), load_recipe(str(_recipe(tmp_path, text))))
        assert "hush" not in str(caught.value)
        result = _problems(tmp_path, _inventory(f"    {text}"))
        assert "hush" not in str(result)


def test_a_file_with_nul_is_an_error_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"hush\0b")
    value = {"A": {"from_file": str(tmp_path / "s")}}
    settings = Settings(host=Host(name="a", vars={"vllm_env": Value(data=value)}))
    with pytest.raises(InventoryError, match="the file contains a NUL byte") as caught:
        secrets.resolve_secret(settings, "A", value["A"])
    assert str(tmp_path / "s") in str(caught.value)
    assert "hush" not in str(caught.value)


BAD_CLUSTERS = ("../../x", "/x", "..", ".x", "-x", "_x", "a/b", "a b", "a\nb", "a\n", "x" * 64, "")


@pytest.mark.parametrize("name", BAD_CLUSTERS)
def test_the_name_of_a_cluster_is_one_folder(name: str, tmp_path: Path) -> None:
    quoted = json.dumps(name)
    result = _problems(tmp_path, _inventory(f"    cluster_name: {quoted}\n"))
    assert result[0].message.startswith("cluster_name: expected a name: letters, digits, dots")
    given = _problems(tmp_path, _inventory("    a: 1\n"), cluster_name=name)
    assert given[0].message.startswith("cluster_name: expected a name")
    text = _inventory(
        f"    clusters:\n      good: {{hosts: sparks}}\n      {quoted}: {{hosts: sparks}}\n"
    )
    result = _problems(tmp_path, text)
    assert result[0].message.startswith(f"clusters: invalid name {name!r}")
    assert result[0].where
    assert (result[0].where.line, result[0].where.col) == (6, 7)


@pytest.mark.parametrize("name", ["default", "a", "0", "desk-2", "rack.lan_1", "x" * 63])
def test_other_names_are_welcome(name: str, tmp_path: Path) -> None:
    path = tmp_path / "i.yml"
    path.write_text(_inventory(f"    cluster_name: {json.dumps(name)}\n"))
    assert choose_cluster(load_inventory([str(path)]), name=name).name == name
    with pytest.raises(InventoryError, match="not found"):
        choose_cluster(load_inventory([str(path)]), name="../x")


def test_a_comment_is_one_line() -> None:
    text = "a\nb\r\tc\x1b\x85\u2028\u2029\0\x9b\x7fd\udcff"
    made = render_value("# {{ text | comment }}", {"text": text})
    assert made == "# a\\x0ab\\x0d\\x09c\\x1b\\x85\\u2028\\u2029\\x00\\x9b\\x7fd\\udcff"
    assert render_value("# {{ text | comment }}", {"text": 7}) == "# 7"


def test_a_name_in_a_script_is_one() -> None:
    assert render_value("export {{ name | variable }}=1", {"name": "_A1"}) == "export _A1=1"
    for name in ("A;B", "A\n", "1A", "", 3):
        with pytest.raises(TemplateError, match="is not a variable name"):
            render_value("export {{ name | variable }}=1", {"name": name})


def test_a_value_with_other_line_ends_is_part_of_the_hash() -> None:
    one, other = ({"a": {"nccl.env": f"export A='x\u2028#{value}'\n"}} for value in "12")
    assert hash_deployment(one, []) != hash_deployment(other, [])


def test_shipped_inventories_have_good_names() -> None:
    for path in sorted((Path(__file__).parents[3] / "inventories").glob("*.yml")):
        try:
            load_inventory([str(path)])
        except InputError as error:
            pytest.fail(f"{path}: {error}")

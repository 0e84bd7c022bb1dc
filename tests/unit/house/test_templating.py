"""Templates keep types, read only what they name, and fail with the place they stand at."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkfleet.errors import InventoryError, PlaybookError, TemplateError, Where
from sparkfleet.templating import (
    evaluate_expression,
    holds_template,
    render_file,
    render_template,
    render_value,
)
from sparkfleet.yaml.nodes import Unsafe
from tests.budget import limit_cpu_time

WHERE = Where(file="f.yml", line=3, col=5, excerpt="x: y")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ port + 1 }}", 8001),
        ("{{ names }}", ["a", "b"]),
        ("{{ names | map('upper') }}", ["A", "B"]),
        ("port {{ port }}", "port 8000"),
        ("{{ port }}{{ port }}", "80008000"),
        ("{{ 1 == 1 }}", True),
        ("{{ none }}", None),
        ("{{ absent | default('x') }}", "x"),
        ("{{ absent is defined }}", False),
        ("{% if port > 1 %}yes{% endif %}", "yes"),
        ("{# nothing #}", ""),
        ("{{ '' | default('y', true) }}", "y"),
        ("{{ {'a': 1} | combine({'b': 2}) }}", {"a": 1, "b": 2}),
        ("{{ 'Yes' | bool }}", True),
        ("{{ (port == 8000) | ternary('a', 'b') }}", "a"),
        ("{{ 'spark1.lan' | regex_replace('[.].*', '') }}", "spark1"),
        ("{{ '{\"a\": 1}' | from_json }}", {"a": 1}),
        ("{{ {'a': 1} | to_json }}", '{"a": 1}'),
        ("{{ '/a/b' | basename }}{{ '/a/b' | dirname }}", "b/a"),
        ('{{ "it\'s" | quote }}', "'it'\"'\"'s'"),
        ("plain", "plain"),
        (Unsafe("{{ port }}"), "{{ port }}"),
        ({"k": ["{{ port }}", 1, None]}, {"k": [8000, 1, None]}),
    ],
)
def test_a_text_that_is_one_expression_keeps_its_type(text: Any, value: Any) -> None:
    assert render_value(text, {"port": 8000, "names": ["a", "b"]}) == value


def test_the_environment_is_read_by_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELS", "/srv/models")
    monkeypatch.delenv("UNSET", raising=False)
    assert render_value("{{ lookup('env', 'MODELS') }}/x", {}) == "/srv/models/x"
    assert render_value("{{ lookup('env', 'UNSET') }}", {}) == ""
    assert render_value("{{ lookup('env', 'UNSET') | default('d', true) }}", {}) == "d"
    assert render_value("{{ lookup('ansible.builtin.env', 'UNSET', default='d') }}", {}) == "d"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ absent }}", "'absent' is undefined"),
        ("{{ a.b }}", "has no attribute 'b'"),
        ("{{ a", "Jinja syntax: unexpected end of template"),
        ("{{ a ~ }}", "Jinja syntax: unexpected 'end of print statement'"),
        ("{{ a | nothing }}", "No filter named 'nothing'"),
        ("{{ lookup('pipe', 'reboot') }}", "lookup('pipe') is not supported; known: env"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ a + 1 }}", "unsupported operand"),
        ("{{ '' | regex_replace('(') }}", "unterminated subpattern"),
        ("{{ ''.__class__ }}", "is unsafe"),
        ("{{ range(10 ** 9) | list }}", "Range too big"),
        ("{{ '{' | from_json }}", "Expecting property name"),
        ("{{ '1e999' | from_json }}", "'inf' is not defined"),
        ("{{ [1] | map(attribute='__class__') | list }}", "is unsafe"),
        ("{{ [1] | map(attribute='__class__') }}", "is unsafe"),
        ("{{ [[absent]] }}", "'absent' is undefined"),
    ],
)
def test_a_failing_template_is_reported_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(InventoryError) as refusal:
        render_value(text, {"a": {}}, where=WHERE, error=InventoryError)
    assert reason in refusal.value.message
    assert refusal.value.problems[0].where == WHERE


class _Reluctant(Mapping[str, Any]):
    """Variables of which one cannot be rendered; it knows which were read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __getitem__(self, name: str) -> Any:
        self.read.append(name)
        if name == "broken":
            raise InventoryError("broken because of x")
        return {"good": 1}[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("good", "broken"))

    def __len__(self) -> int:
        return 2


def test_only_the_variables_that_a_template_names_are_read() -> None:
    variables = _Reluctant()
    assert render_value("{{ good }}", variables) == 1
    assert variables.read == ["good"]


def test_a_variable_that_cannot_be_rendered_counts_as_undefined() -> None:
    assert render_value("{{ broken | default(2) }}", _Reluctant()) == 2
    with pytest.raises(TemplateError, match="broken because of x"):
        render_value("{{ broken }}", _Reluctant())


def test_a_condition_is_a_bare_expression() -> None:
    assert (
        evaluate_expression("rank == 0 and engine is defined", {"rank": 0, "engine": "native"})
        is True
    )
    with pytest.raises(PlaybookError, match="'rank' is undefined"):
        evaluate_expression("rank == 0", {}, error=PlaybookError)


def test_a_file_is_rendered_and_an_error_in_it_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "run.sh.j2"
    path.write_text(
        "#!/bin/sh\n{% if yes %}\nexec {{ run | quote }} {{ word | quote }}\n{% endif %}\n"
    )
    values = {"yes": True, "run": "a b", "word": "$x"}
    assert render_file(path, values) == "#!/bin/sh\nexec 'a b' '$x'\n"
    with pytest.raises(TemplateError) as refusal:
        render_file(path, {"yes": True, "word": ""})
    assert str(refusal.value.problems[0].where) == f"{path}:3"
    path.write_text("ok\n{% if %}\n")
    with pytest.raises(TemplateError) as refusal:
        render_file(path, {})
    assert str(refusal.value.problems[0].where) == f"{path}:2"


def test_the_projects_own_template_comes_before_the_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "own.j2").write_text("mine {{ x }}\n")
    monkeypatch.chdir(tmp_path)
    assert render_template("own.j2", {"x": 1}) == "mine 1\n"
    with pytest.raises(TemplateError, match=r"template 'owm\.j2' not found"):
        render_template("owm.j2", {})


def test_jinja_is_not_imported_before_there_is_a_template() -> None:
    code = (
        "import sys\nfrom sparkfleet.templating import render_value\nrender_value('plain', {})\n"
        "assert 'jinja2' not in sys.modules\n"
        "render_value('{{ 1 }}', {})\nassert 'jinja2' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


@given(st.recursive(st.text("a{}%# |'\"()[].+-*~x1", max_size=20), st.lists, max_leaves=3))
def test_any_text_is_rendered_or_refused(value: Any) -> None:
    with limit_cpu_time():
        try:
            rendered = render_value(value, {"a": 1, "x": "y"})
        except TemplateError as refusal:
            rendered = refusal.message
    assert holds_template(value) or rendered == value


def test_a_template_may_be_a_page_of_html(tmp_path: Path) -> None:
    (tmp_path / "page.j2").write_text("<!DOCTYPE html>\n<title>{{ name }}</title>\n")
    assert render_file(tmp_path / "page.j2", {"name": "a"}).endswith("<title>a</title>\n")

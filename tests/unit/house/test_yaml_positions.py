"""YAML with positions: every value has its line, and all mistakes are reported at once."""

from __future__ import annotations

import datetime as dt
import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkfleet.errors import InputError, RecipeError, Where
from sparkfleet.yaml import positions, source


def _load(text: str | bytes) -> positions.Node:
    return positions.load_yaml(text, file="f.yml")


def _problems(text: str | bytes) -> list[tuple[str, str]]:
    with pytest.raises(InputError) as refusal:
        _load(text)
    return [(str(problem.where), problem.message) for problem in refusal.value.problems]


def test_no_garbage_is_collected_while_a_document_is_composed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collected: list[bool] = []

    def compose(text: str, **settings: object) -> None:
        del text, settings
        collected.append(gc.isenabled())

    monkeypatch.setattr("yaml.compose", compose)
    assert _load("a: 1\n").data is None
    assert collected == [False]
    assert gc.isenabled()


def test_a_value_knows_its_place_and_its_line() -> None:
    tree = _load("a: 1\nb:\n  - x\n  - {c: deep}\n")
    assert isinstance(tree, positions.Map)
    sequence = tree.get("b")
    assert isinstance(sequence, positions.List)
    inner = sequence.items[1]
    assert isinstance(inner, positions.Map)
    assert inner.key("c").where == Where(file="f.yml", line=4, col=6, excerpt="  - {c: deep}")
    assert [key.data for key, _ in tree.items()] == ["a", "b"]
    assert tree.data == {"a": 1, "b": ["x", {"c": "deep"}]}
    assert tree.get("absent") is None


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("yes", True),
        ("0755", 493),
        ("1:30", 90),
        ("1e3", "1e3"),
        ("~", None),
        ("2026-11-27", dt.date(2026, 11, 27)),
        ("!!str 5", "5"),
        ("!!binary aGk=", b"hi"),
        ('{"a": 1e3, "b": [true, null]}', {"a": 1000.0, "b": [True, None]}),
        ("", None),
        ("# only a comment\n", None),
        ("\ufeffa: 1", {"a": 1}),
        ("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
    ],
)
def test_values_are_those_of_yaml_1_1_and_of_json_where_the_text_is_json(
    text: str, data: object
) -> None:
    assert _load(text).data == data


def test_merged_mappings_give_way_to_own_keys() -> None:
    text = "base: &base {a: 1, b: 1}\nmore: &more {b: 2, c: 2}\nx: {<<: [*base, *more], c: 3}\n"
    assert _load(text).data["x"] == {"a": 1, "b": 1, "c": 3}


def test_text_marked_unsafe_stays_marked_and_numbers_stay_numbers() -> None:
    data = _load('a: !unsafe "{{ x }}"\nb: !unsafe [y, 1]\n').data
    assert isinstance(data["a"], positions.Unsafe)
    assert isinstance(data["b"][0], positions.Unsafe)
    assert data == {"a": "{{ x }}", "b": ["y", 1]}


def test_every_duplicate_key_is_reported_with_the_line_of_the_first() -> None:
    assert _problems("a: 1\nb: {c: 1, c: 2}\na: 2\n") == [
        ("f.yml:2:11", "duplicate key 'c', first set on line 2"),
        ("f.yml:3:1", "duplicate key 'a', first set on line 1"),
    ]


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("a:\n\t- b\n", "f.yml:2:1", "invalid YAML: line indented with a tab"),
        ("a: b: c", "f.yml:1:5", "invalid YAML: mapping values are not allowed"),
        ("a: {{ x }}", "f.yml:1:5", "a key must be text, not a list or a mapping"),
        ("a: !vault |\n  x\n", "f.yml:1:4", "ansible-vault encryption (!vault) is not supported"),
        (
            "$ANSIBLE_VAULT;1.1;AES256\n61\n",
            "f.yml:1:1",
            "the file is encrypted with ansible-vault",
        ),
        (
            "a: !!python/name:os.system x",
            "f.yml:1:4",
            "the tag !!python/name:os.system is not supp",
        ),
        ("a: !!set {x}", "f.yml:1:4", "the tag !!set is not supported"),
        ("a: &x [*x]", "f.yml:1:4", "this value contains itself through an alias"),
        ("[" * 101 + "]" * 101, "f.yml:1:101", "values are nested more than 100 deep"),
        ("[" * 5000, "f.yml:1:1001", "invalid YAML: exceeded maximum nesting depth"),
        ("a: 2026-13-45", "f.yml:1:4", "'2026-13-45' is not a valid timestamp"),
        ("a: 0x" + "f" * 5000, "f.yml:1:4", "'0xffff"),
        ("a: *nobody", "f.yml:1:4", "invalid YAML: found undefined alias 'nobody'"),
        ("a: 1\n---\nb: 1\n", "f.yml:2:1", "invalid YAML: expected a single document"),
        ("a: 1\nb: {<<: 1}", "f.yml:2:9", "<< must be followed by an alias to a mapping"),
    ],
)
def test_an_unreadable_file_is_reported_with_the_place(text: str, where: str, message: str) -> None:
    [(place, result)] = _problems(text)
    assert place == where
    assert message in result


@pytest.mark.parametrize("text", ["*.safetensors", "weights_allow: [*.safetensors]", "a: * x"])
def test_a_pattern_without_quotes_is_reported_with_the_quotes_to_add(text: str) -> None:
    [problem] = _refusal(text).problems
    assert problem.hint == 'quote a value that begins with *: "*.safetensors"'


def test_a_picture_shows_the_line_and_a_caret_under_the_column() -> None:
    with pytest.raises(InputError) as refusal:
        _load("ok: 1\nport: !vault x\n")
    assert "    port: !vault x\n          ^\n" in str(refusal.value)


def test_a_long_line_is_cut_and_a_column_beyond_the_cut_has_no_picture() -> None:
    [text] = _refusal("a: [" + "x, " * 100 + "!vault y]").problems
    assert text.where is not None
    assert text.where.excerpt is None
    assert text.where.col == 305


def _refusal(text: str | bytes) -> InputError:
    with pytest.raises(InputError) as refusal:
        _load(text)
    return refusal.value


def test_a_bomb_of_aliases_is_refused_before_it_is_unfolded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    (problem,) = _refusal("\n".join(lines)).problems
    assert problem.message == "aliases unfold to more than 1,000,000 values"
    assert problem.where
    assert (problem.where.line, problem.where.col) == (5, 5)  # of the list that is too much


def test_of_very_many_mistakes_the_first_thousand_are_kept() -> None:
    problems = _refusal("a: 1\n" * 20_000).problems
    assert len(problems) == 1000
    assert problems[-1].message == "duplicate key 'a', first set on line 1"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<!DOCTYPE html>\n<title>404</title>", "the file is an HTML page, not the file itself"),
        (b"\xef\xbb\xbf\n <HTML>", "the file is an HTML page, not the file itself"),
        (b"\xffa", "the file is not UTF-8 text: byte 0xff at offset 0"),
        ("a: 1\n".encode("utf-16"), "the file is UTF-16 text, not UTF-8"),
        (b"\xfe\xff" + "a: 1\n".encode("utf-16-be"), "the file is UTF-16 text, not UTF-8"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n",
            "the file is a Git LFS pointer, not the file itself",
        ),
        (b"a: \x00", r"the file is not text: it contains the character '\x00'"),
        (b"\x7fELF\x02\x01\x01", r"the file is not text: it contains the character '\x7f'"),
        (b"a" * 1_000_001, "the file is larger than 1 MB"),
    ],
)
def test_bytes_that_are_not_text_are_refused(content: bytes, message: str) -> None:
    [problem] = _refusal(content).problems
    assert problem.message == message


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_conflict_of_a_merge_is_named_with_its_place(end: str) -> None:
    text = "a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> other\n".replace("\n", end)
    [problem] = _refusal(text).problems
    assert problem.message == "the file contains an unresolved merge conflict"
    assert str(problem.where) == "f.yml:2:1"
    assert _load("a: |\n  <<<<<<< HEAD\n  =======\n  >>>>>>> other\n").data


def test_the_caller_chooses_the_kind_of_error() -> None:
    with pytest.raises(RecipeError):
        positions.load_yaml("a: [", file="r.yml", error=RecipeError)
    with pytest.raises(RecipeError, match=r"r\.yml: not found"):
        source.read_source_file("/nowhere/r.yml", error=RecipeError)


@given(
    st.binary(max_size=60) | st.text("ab:-[]{}&*!|>'\"#%@,? \n\t<\\\ufeff\u2028\x85", max_size=60)
)
def test_any_content_is_data_or_an_input_error(content: str | bytes) -> None:
    try:
        result = repr(_load(content).data)
    except InputError as refusal:
        result = str(refusal)
    assert result

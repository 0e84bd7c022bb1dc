"""Valid inputs, changed at random: texts by line, word and value, trees by field, bytes at last.

A change knows the grammar: it copies a key, splices two files, gives one key another's value or
nests it, so that most of what comes out is still read and only a deep part of it is wrong. All
chance comes from one number, which a failing test prints.
"""

from __future__ import annotations

import codecs
import copy
import functools
import json
import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.odd_values import MERGES, ODD_JINJA, ODD_JSON, ODD_NUMBERS, ODD_SCALARS, ODD_SIGNS

NUMBERS = st.integers(0, 2**63)  # one for each example
Change = Callable[[random.Random, str, str, Sequence[str]], str]
COUNTS = (1, 1, 1, 2, 3, 5)
MAX_LENGTH = 60_000  # characters; splices do not grow without end
WORD = re.compile(r"[\w.%+-]+")
VALUE = re.compile(r"(?<=[:=] )\S.*$", re.MULTILINE)
DIGITS = re.compile(r"\b\d+(?:\.\d+)?\b")


def create_chance(number: int) -> random.Random:
    """Return what makes the same choices each time for the same number."""
    return random.Random(number)


def mutate_text(chance: random.Random, seeds: Sequence[str], tokens: Sequence[str] = ()) -> str:
    """Return one of `seeds` after one to five changes; `tokens` are words of its own language."""
    text = chance.choice(seeds)
    for _ in range(chance.choice(COUNTS)):
        text = chance.choice(CHANGES)(chance, text, chance.choice(seeds), tokens)[:MAX_LENGTH]
    return text


def mutate_yaml(chance: random.Random, seeds: Sequence[str], tokens: Sequence[str] = ()) -> bytes:
    """Return a document of YAML: one time in two its values are changed, else its text."""
    text = chance.choice(seeds)
    others = [tree for tree in map(_load_yaml, chance.choices(seeds, k=2)) if tree is not None]
    tree = _load_yaml(text) if chance.random() < 1 / 2 else None
    if tree is None:
        return encode_text(chance, mutate_text(chance, seeds, tokens))
    flow = chance.choice((None, False, True))
    changed = mutate_tree(chance, tree, others)
    text = yaml.safe_dump(changed, default_flow_style=flow, allow_unicode=True, sort_keys=False)
    if chance.random() < 1 / 4:
        text = chance.choice(CHANGES)(chance, text, chance.choice(seeds), tokens)[:MAX_LENGTH]
    return encode_text(chance, text)


@functools.cache
def _load_yaml(text: str) -> Any:
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError):
        return None


def encode_text(chance: random.Random, text: str) -> bytes:
    """Return `text` as bytes, one time in twenty in an encoding that a mistake leads to."""
    plain = text.encode("utf-8", "surrogatepass")
    if chance.random() > 1 / 20:
        return plain
    cut = chance.randrange(len(plain) + 1)
    return chance.choice(
        (
            codecs.BOM_UTF8 + plain,
            text.encode("utf-16", "surrogatepass"),
            text.encode("latin-1", "replace"),
            plain.replace(b"\n", b"\r\n"),
            plain.replace(b"\n", b"\r"),
            plain[:cut],
            plain[:cut] + b"\xe2\x80",
            plain[:cut] + bytes([chance.randrange(256)]) + plain[cut + 1 :],
            plain[:cut] + b"\xc0\x80\xed\xa0\x80" + plain[cut:],
        )
    )


def mutate_tree(chance: random.Random, tree: Any, others: Sequence[Any] = ()) -> Any:
    """Return a copy of a tree of JSON after one to five changes; `others` lend their parts."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.choice(COUNTS)):
        places = list(list_places(tree))
        if not places:
            return make_value(chance)
        owner, key = chance.choice(places)
        _change_field(chance, owner, key, others)
    return tree


def list_places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each list and mapping with each of its keys."""
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from list_places(tree[key])


def make_value(chance: random.Random) -> Any:
    """Return any value that JSON of Python can hold."""
    kind = chance.randrange(9)
    if kind < 2:
        return chance.choice((None, True, False, "", [], {}, [[]], [None], {"": None}, {"a": [1]}))
    if kind < 5:
        sizes = (2**31, 2**53, 2**63, 2**64, 10**30)
        return chance.choice((0, 1, -1, chance.randrange(-9, 10**6), chance.choice(sizes)))
    if kind == 5:
        return chance.choice((0.5, -0.0, 1e308, 5e-324, float("inf"), float("-inf"), float("nan")))
    return chance.choice((*ODD_NUMBERS, *ODD_SCALARS, *ODD_JINJA, *ODD_SIGNS, *"abc"))


def dump_tree(chance: random.Random, tree: Any) -> bytes:
    """Return JSON as others write it: with a key twice, huge numbers, other spaces, or cut."""
    text = json.dumps(tree, ensure_ascii=chance.random() < 1 / 2)
    if chance.random() < 1 / 8:
        text = _insert_key(chance, text)
    if chance.random() < 1 / 8:
        text = _change_number(chance, text, "", ())
    return encode_text(chance, text)


def _insert_key(chance: random.Random, text: str) -> str:
    keys: list[str] = re.findall(r'"[^"\\]{0,40}": ', text) or ['"a": ']
    begins = [match.end() for match in re.finditer(r"\{", text)] or [0]
    begin = chance.choice(begins)
    value = chance.choice(ODD_JSON)
    comma = "" if text[begin : begin + 1] == "}" else ", "
    return text[:begin] + chance.choice(keys) + value + comma + text[begin:]


def _change_field(chance: random.Random, owner: Any, key: Any, others: Sequence[Any]) -> None:
    change = chance.choice(FIELD_CHANGES)
    change(chance, owner, key, others)


def _drop_field(_chance: random.Random, owner: Any, key: Any, _others: Sequence[Any]) -> None:
    del owner[key]


def _wrap_field(chance: random.Random, owner: Any, key: Any, _others: Sequence[Any]) -> None:
    value = owner[key]
    owner[key] = chance.choice(([value], [value, value], {"a": value}, {key: value}, str(value)))


def _lend_field(chance: random.Random, owner: Any, key: Any, others: Sequence[Any]) -> None:
    """Take the value that another tree has, if it can be under the same key."""
    places = list(list_places(chance.choice(others))) if others else [(owner, key)]
    same = [place for place in places if place[1] == key]
    lender, lent = chance.choice(same or places or [(owner, key)])
    owner[key] = copy.deepcopy(lender[lent])


def _add_field(chance: random.Random, owner: Any, key: Any, others: Sequence[Any]) -> None:
    """Add what another tree has: a key that it may have, or an item."""
    places = list(list_places(chance.choice(others))) if others else [(owner, key)]
    lender, lent = chance.choice(places or [(owner, key)])
    if isinstance(owner, dict):
        owner[lent if isinstance(lent, str) else "a"] = copy.deepcopy(lender[lent])
    else:
        owner.extend([copy.deepcopy(lender[lent])] * chance.choice((1, 1, 2, 300)))


def _rename_field(chance: random.Random, owner: Any, key: Any, _others: Sequence[Any]) -> None:
    if isinstance(owner, dict):
        names = (
            *owner,
            f"{key}{chance.choice(ODD_SIGNS)}",
            str(key).upper(),
            str(key)[:-1],
            1,
            True,
        )
        owner[chance.choice(names)] = owner.pop(key)


def _scale_field(chance: random.Random, owner: Any, key: Any, _others: Sequence[Any]) -> None:
    value = owner[key]
    if isinstance(value, int | float):
        owner[key] = chance.choice((value * 1024, -value, value / 3, value + 1, value - 1, 0, 1))
    elif isinstance(value, str):
        owner[key] = chance.choice(CHANGES)(chance, value, value, ())
    elif isinstance(value, list):
        owner[key] = chance.choice((value * 2, value[:1], value[::-1]))


def _make_field(chance: random.Random, owner: Any, key: Any, _others: Sequence[Any]) -> None:
    owner[key] = make_value(chance)


FIELD_CHANGES = (
    *(_drop_field, _wrap_field, _lend_field, _lend_field, _add_field, _add_field),
    *(_rename_field, _scale_field, _scale_field, _make_field, _make_field),
)


def _cut(chance: random.Random, text: str, _other: str, _tokens: Sequence[str]) -> str:
    begin = chance.randrange(len(text) + 1)
    return text[:begin] + text[begin + chance.choice((1, 1, 3, 12, 400)) :]


def _end_early(chance: random.Random, text: str, _other: str, _tokens: Sequence[str]) -> str:
    return text[: chance.randrange(len(text) + 1)]


def _insert(chance: random.Random, text: str, _other: str, tokens: Sequence[str]) -> str:
    begin = chance.randrange(len(text) + 1)
    odd = chance.choice((tokens or ODD_SIGNS, ODD_SIGNS, ODD_SCALARS, ODD_JINJA))
    return text[:begin] + chance.choice(odd) + text[begin:]


def _insert_line(chance: random.Random, text: str, other: str, tokens: Sequence[str]) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    kinds: tuple[Sequence[str], ...] = (tokens or MERGES, tokens or MERGES, MERGES, lines)
    line = chance.choice(chance.choice((*kinds, other.split("\n"))))
    lines.insert(at, indent + line.strip(" "))
    return "\n".join(lines)


def _copy_lines(chance: random.Random, text: str, other: str, _tokens: Sequence[str]) -> str:
    lines = text.split("\n")
    giving = chance.choice((lines, other.split("\n")))
    begin = chance.randrange(len(giving))
    at = chance.randrange(len(lines) + 1)
    lines[at:at] = giving[begin : begin + chance.choice((1, 2, 5, 20))] * chance.choice((1, 1, 9))
    return "\n".join(lines)


def _splice(chance: random.Random, text: str, other: str, _tokens: Sequence[str]) -> str:
    head = text.split("\n")
    tail = other.split("\n")
    kept = head[: chance.randrange(len(head) + 1)]
    return "\n".join([*kept, *tail[chance.randrange(len(tail)) :]])


def _move_lines(chance: random.Random, text: str, _other: str, _tokens: Sequence[str]) -> str:
    lines = text.split("\n")
    begin = chance.randrange(len(lines))
    end = begin + chance.choice((1, 3, 9))
    step = chance.choice(("  ", "    ", " ", "\t", "- "))
    deeper = chance.random() < 1 / 2
    lines[begin:end] = [step + row if deeper else row[2:] for row in lines[begin:end]]
    return "\n".join(lines)


def _change_value(chance: random.Random, text: str, other: str, tokens: Sequence[str]) -> str:
    values = list(VALUE.finditer(text))
    if not values:
        return _insert(chance, text, other, tokens)
    place = chance.choice(values)
    lent: list[str] = VALUE.findall(other) or ["x"]
    kinds: tuple[Sequence[str], ...] = (lent, lent, ODD_SCALARS, ODD_JINJA, ODD_NUMBERS)
    value = chance.choice(chance.choice((*kinds, tokens or lent)))
    if chance.random() < 1 / 6:
        value = chance.choice(
            (f"[{place[0]}]", f"{{a: {place[0]}}}", f"'{place[0]}'", f'"{value}"')
        )
    return text[: place.start()] + value + text[place.end() :]


def _change_word(chance: random.Random, text: str, other: str, tokens: Sequence[str]) -> str:
    words = list(WORD.finditer(text))
    if not words:
        return _insert(chance, text, other, tokens)
    place = chance.choice(words)
    lent: list[str] = WORD.findall(other) or ["x"]
    word = chance.choice((chance.choice(lent), chance.choice(lent), chance.choice(tokens or lent)))
    if chance.random() < 1 / 4:
        half = len(place[0]) // 2
        odd = chance.choice(ODD_SIGNS)
        word = chance.choice((place[0][:half] + odd + place[0][half:], place[0].swapcase()))
    return text[: place.start()] + word + text[place.end() :]


def _change_number(chance: random.Random, text: str, _other: str, _tokens: Sequence[str]) -> str:
    numbers = list(DIGITS.finditer(text))
    if not numbers:
        return text + chance.choice(ODD_NUMBERS)
    place = chance.choice(numbers)
    return text[: place.start()] + chance.choice(ODD_NUMBERS) + text[place.end() :]


def _normalize(chance: random.Random, text: str, _other: str, _tokens: Sequence[str]) -> str:
    form = chance.choice(("NFC", "NFD", "NFKC", "NFKD"))
    odd = chance.choice(("é", "ﬁ", "Å", "한"))
    at = chance.randrange(len(text) + 1)
    return unicodedata.normalize(form, text[:at] + odd + text[at:])  # type: ignore[arg-type]  # a form


CHANGES: Sequence[Change] = (
    *(_cut, _end_early, _insert, _insert_line, _copy_lines, _splice, _move_lines),
    *(_change_value, _change_value, _change_word, _change_word, _change_number, _normalize),
)

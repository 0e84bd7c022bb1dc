"""Failures are searched where their words are, and found as if each were searched everywhere."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest

from sparkfleet.doctor import events, line_index, matcher, search
from sparkfleet.doctor.events import LineTimes, SearchText, join_entries, read_entries
from sparkfleet.doctor.line_index import LineIndex
from sparkfleet.doctor.patterns import ENDLESS, compile_pattern, count_breaks, find_needles
from sparkfleet.doctor.reasons import find_first_error
from sparkfleet.doctor.signatures import SIGNATURES, row
from tests.gb10 import OUTPUTS

FILLER = "INFO 11-29 01:02:03 [loader.py:1] nothing to see here"
Known = Callable[[int], bool] | None


@cache
def _list_texts() -> tuple[str, ...]:
    rows = [text for each in SIGNATURES for text in (each.sample, each.near_miss) if text]
    files = [path.read_text(errors="replace")[:4000] for path in sorted(OUTPUTS.glob("*.log"))]
    return (*rows, *files)


def _carry(text: str, chance: random.Random) -> str:
    """Return a text as a carrier hands it on, or damaged."""
    address = chance.randrange(1, 4)
    return chance.choice(
        [
            text,
            "\n".join(
                f"(RayWorkerWrapper pid=7, ip=10.0.0.{address}) {line}" for line in text.split("\n")
            ),
            "\n".join(f"2026-11-29T01:02:03.5Z {line}" for line in text.split("\n")),
            f"ray::RayTaskError(X) (pid=7, ip=10.0.0.{address})\n  {text}",
            f"{text}\n{text}",
            text.replace(" ", "\n", 2),
            text.replace("\n", " "),
            re.sub(r"\d", lambda _: str(chance.randrange(10)), text),
            f"{'x' * chance.randrange(9000)}{text}",
        ]
    )


def _mix_log(seed: int) -> str:
    chance = random.Random(seed)
    chosen = chance.choices(_list_texts(), k=chance.choice([5, 40, 150]))
    return "\n".join(_carry(text, chance) for text in chosen)


def _search_everywhere(
    pattern: str, searched: SearchText, _index: LineIndex, _is_known: Known
) -> Iterator[re.Match[str]]:
    return compile_pattern(pattern).finditer(searched.text)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.thorough) for n in range(3, 60))]
)
def test_failures_are_those_of_a_search_everywhere(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = {"spark-01": _mix_log(seed), "spark-02": _mix_log(-seed)}
    found = matcher.find_known_failures(logs)
    monkeypatch.setattr(matcher, "search_pieces", _search_everywhere)
    assert found == matcher.find_known_failures(logs)


def test_the_lines_of_a_match_are_bounded() -> None:
    assert [each.id for each in SIGNATURES if count_breaks(each.pattern) > 50] == []


@pytest.mark.parametrize(
    ("pattern", "breaks"),
    [
        (r"^a.b[^\n]\d$", 0),
        (r"a\nb", 1),
        (r"[^']", 1),
        (r"[^'\n]", 0),
        (r"(?:.{0,9}\n){0,4}?\s{1,3}", 7),
        (r"a|b\n|c\n\n", 2),
        (r"(?P<x>\w)(?P=x)", 0),
        (r"(\s)\1", 2),
        (r"a(?!\n)(?=\s)", 2),
        (r"\s+", ENDLESS),
        (r"(?>\n)", ENDLESS),
    ],
)
def test_line_breaks_of_a_pattern_are_counted(pattern: str, breaks: float) -> None:
    assert count_breaks(pattern) == breaks


@pytest.mark.parametrize("at", [0, 7, 19])
@pytest.mark.parametrize(
    ("needle", "line"),
    [
        ("is not defined", "value 'sm_121a' IS NOT DEFINED here"),
        ("ptxas", "cptxas_fatal"),
        ("validation error", "12 revalidation errors"),
        ("ode (ip: ", "The Node (IP: 10.0.0.1)"),
        ("sm_121a not", "ptxas: sm_121a nothing"),
        ('split(".")\nvalue', 'arch.split(".")'),
        ("na\u00efve", "a na\u00efve word"),
    ],
)
def test_a_line_is_found_by_a_needle(
    needle: str, line: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_index, "_LINES", 3)
    monkeypatch.setattr(line_index, "_MAX_KNOWN", 4)
    lines = [f"{FILLER} {number} {'abc'[number % 3]}" for number in range(20)]
    lines[at] = line
    lines[10] = f"{line} again"
    assert list(LineIndex(lines, [needle, "other words"]).find_lines([needle])) == sorted({at, 10})


def test_lines_of_several_needles_are_in_order() -> None:
    lines = ["first needle", "", "second needle", "first needle", "second needle first needle"]
    index = LineIndex(lines, ["first needle", "second needle", "third needle"])
    assert list(index.find_lines(["second needle", "first needle", "third needle"])) == [0, 2, 3, 4]
    assert not list(index.find_lines(["third needle"]))


@pytest.mark.parametrize("most", [1, 2, 1000])
def test_a_match_of_several_lines_is_found_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_PIECES", most)
    lines = [FILLER] * 9
    lines[2:5] = ["begin", "middle", "needle end"]
    lines[5:7] = ["begin", "needle end"]
    lines[8] = "needle end"
    searched = join_entries(read_entries("\n".join(lines)))
    index = LineIndex(searched.pieces, ["needle end"])
    pattern = r"begin\n(?:.{0,99}\n){0,2}?needle end"
    matches = search.search_pieces(pattern, searched, index, None)
    assert [searched.find_piece(match.start()) for match in matches] == [2, 5]


def test_a_line_that_is_known_is_not_searched() -> None:
    searched = join_entries(read_entries("a needle\nother\nanother needle"))
    index = LineIndex(searched.pieces, ["needle"])
    matches = search.search_pieces("needle", searched, index, lambda piece: piece == 0)
    assert [match.start() for match in matches] == [len("a needle\nother\nanother ")]


def test_lines_without_a_time_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def parse(line: str) -> str:
        read.append(line)
        return ""

    monkeypatch.setattr(events, "_parse_time", parse)
    times = LineTimes("\n".join(map(str, range(5000))))
    for index in reversed(range(5000)):
        times.find_time(index)
    assert len(read) < 5000 * 70


@pytest.mark.parametrize("at", [0, 99, row._BLOCK - 30, row._BLOCK - 3, row._BLOCK, row._BLOCK + 5])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (0, 1), (row._BLOCK * 2, 9)])
def test_a_match_between_two_places_is_found(at: int, before: int, after: int) -> None:
    needle = "Error in inspecting model architecture"
    text = f"{'x' * at}{needle}{'y' * row._BLOCK}"
    begin, end = max(0, at - before), at + len(needle) + after
    assert row.has_match_between(needle, text, begin, end)
    assert not row.has_match_between(needle, text, begin, at + len(needle) - 1)
    assert not row.has_match_between(needle, text, at + 1, len(text))


@pytest.mark.parametrize("end", range(0, 60, 4))
def test_the_context_is_the_last_one_before_a_place(end: int) -> None:
    text = "first\nNCCL WARN a\nNCCL WARN [Proxy b\nNCCL WARN cde\n\nlast NCCL WARN f\n"
    signature = replace(SIGNATURES[0], context=r"NCCL WARN (?P<warning>(?!\[Proxy).{1,300})")
    matches = list(re.finditer(signature.context, text[:end]))
    expected = matches[-1].groupdict() if matches else {}
    assert signature.find_context(text, end) == expected


def test_the_last_of_many_exceptions_is_the_reason() -> None:
    log = "\n".join(f"example.StrangeError: number {number}" for number in range(50))
    error = find_first_error(log)
    assert error is not None
    assert (error.line, error.chain) == (50, ())


def test_only_patterns_whose_words_are_in_the_log_are_compiled() -> None:
    compile_pattern.cache_clear()
    count_breaks.cache_clear()
    found = matcher.find_known_failures({"spark0": "OSError: [Errno 98] Address already in use"})
    assert [each.id for each in found] == ["port-in-use"]
    assert compile_pattern.cache_info().currsize < 20
    assert count_breaks.cache_info().currsize < 20


@pytest.mark.parametrize(
    ("repeated", "line"), [("KeyError: 'part'", 7), ("ptxas fatal : no such part", 2)]
)
def test_of_equal_exceptions_the_last_is_the_reason_and_of_tools_the_first(
    repeated: str, line: int
) -> None:
    error = find_first_error("\n".join(["begin", *[repeated] * 3, "", *[repeated] * 2, "end"]))
    assert error is not None
    assert (error.line, error.text) == (line, repeated)


@pytest.mark.parametrize(("at", "time"), [(0, "11-29 01:02:03"), (3, "11-29 01:02:03")])
def test_a_line_before_the_first_time_has_that_one(at: int, time: str) -> None:
    lines = ["begin", "took 01:02:03", "2026-11-29 01:02:03 loading", "no time"]
    assert LineTimes("\n".join(lines)).find_time(at) == time
    assert LineTimes("begin\ntook 01:02:03").find_time(0) == events.UNKNOWN_TIME


@pytest.mark.parametrize("pattern", [r"\.0/24", "(?:error|=====)", "éééé"])
def test_a_pattern_whose_words_have_no_letters_is_searched_everywhere(pattern: str) -> None:
    assert find_needles(pattern) == frozenset()
    searched = join_entries(read_entries(f"{FILLER}\nroute 10.0.0.0/24 ===== éééé\n{FILLER}"))
    index = LineIndex(searched.pieces, find_needles(pattern))
    (match,) = search.search_pieces(pattern, searched, index, None)
    assert searched.find_piece(match.start()) == 1

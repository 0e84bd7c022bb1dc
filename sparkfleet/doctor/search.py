"""Search a log for a known failure, only where its words are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from sparkfleet.doctor.events import SearchText
from sparkfleet.doctor.line_index import LineIndex
from sparkfleet.doctor.patterns import compile_pattern, count_breaks, find_needles
from sparkfleet.doctor.signatures import SIGNATURES

_PIECES = 1000  # that a pattern of several lines sees at once
_MAX_KNOWN = 10_000  # pieces without a match that are kept to be compared with later ones


def index_pieces(searched: SearchText) -> LineIndex:
    """Return which pieces of a log have words of known failures."""
    needles = (find_needles(row.pattern) for row in SIGNATURES)
    return LineIndex(searched.pieces, frozenset().union(*needles))


def search_pieces(
    pattern: str, searched: SearchText, index: LineIndex, is_known: Callable[[int], bool] | None
) -> Iterator[re.Match[str]]:
    """Yield the matches of `pattern` in a log, in their order.

    A match on one line is left out where `is_known` holds for its piece, which is asked when the
    search gets there.
    """
    needles = find_needles(pattern)
    if not needles:
        return compile_pattern(pattern).finditer(searched.text)
    numbers = index.find_lines(needles)
    if not numbers:
        return iter(())
    if breaks := count_breaks(pattern):
        return _search_around(pattern, searched, numbers, breaks)
    unknown = (number for number in numbers if not is_known(number)) if is_known else numbers
    return _search_pieces(pattern, searched, unknown)


def _search_pieces(
    pattern: str, searched: SearchText, numbers: Iterable[int]
) -> Iterator[re.Match[str]]:
    """Yield the matches in some pieces; one that did not match is not searched again."""
    compiled = compile_pattern(pattern)
    without: set[str] = set()
    for number in numbers:
        piece = searched.pieces[number]
        if piece in without:
            continue
        matches = compiled.finditer(searched.text, *searched.find_span(number, number))
        if match := next(matches, None):
            yield match
            yield from matches
        else:
            if len(without) >= _MAX_KNOWN:
                without.clear()
            without.add(piece)


def _search_around(
    pattern: str, searched: SearchText, numbers: Iterable[int], breaks: float
) -> Iterator[re.Match[str]]:
    """Yield the matches that have one of some pieces and at most `breaks` line breaks."""
    last = len(searched.pieces) - 1
    around = int(min(breaks, last))
    place = 0
    for first, final in _list_starts(numbers, around):
        begin, end = searched.find_span(first, final)
        _, most = searched.find_span(first, min(last, final + around))
        place = max(place, begin)
        while match := compile_pattern(pattern).search(searched.text, place, most):
            if match.start() > end:
                break
            yield match
            place = match.end()


def _list_starts(numbers: Iterable[int], around: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last piece of each area in which a match may start."""
    first = final = -1
    for number in numbers:
        if first >= 0 and (number - around > final + 1 or number - first >= _PIECES):
            yield first, final
            first = -1
        if first < 0:
            first = max(number - around, final + 1)
        final = number
    if first >= 0:
        yield first, final

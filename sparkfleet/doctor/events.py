"""A log as events: one per line, with its time, level, process and host."""

from __future__ import annotations

import array
import bisect
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkfleet.vllm import milestones
from sparkfleet.vllm.milestones import LogLine

UNKNOWN_TIME = "~"  # after all times
_FEW_LOGS = 16  # those of eight hosts
LONGEST_LINE = 4096  # characters that patterns see at once
_OVERLAP = 512  # characters by which the pieces of a longer line overlap
_STRIDE = 64  # lines of which one has its time kept
_PREFIX = 200  # characters in which a line's time is searched
_STAMP = re.compile(
    r"(?<!\d)(?:\d{4}-(?P<day>\d\d-\d\d)|(?P<short>\d\d-\d\d)|[EFIW](?P<tight>\d{4})"
    r"|(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?P<date>[ \d]\d))"
    r"[ T](?P<time>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
)
_CLOCK = re.compile(r"[ T]\d\d:\d\d:\d\d")  # what a stamp has: a tenth of its time to find
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchText:
    """The text of a log that patterns search, and the line (from 0) of each of its pieces.

    A line is one piece; a longer one than LONGEST_LINE is several, which overlap. `text` has a line
    break after each piece but the last, and `starts` one item more than there are pieces.
    """

    text: str
    pieces: Sequence[str]
    starts: Sequence[int]
    lines: Sequence[int]

    def find_piece(self, place: int) -> int:
        """Return the piece (from 0) in which a place of the text is."""
        return bisect.bisect_right(self.starts, place) - 1

    def find_span(self, first: int, last: int) -> tuple[int, int]:
        """Return where in the text the piece `first` begins, and where the piece `last` ends."""
        return self.starts[first], self.starts[last + 1] - 1


class LineTimes:
    """The time of each line of a log, `MM-DD hh:mm:ss`; only those that are asked for are read.

    A time that the carrier of the log adds (`docker logs -t`, journald) is used before the
    program's own one: each line has it, so that all times of a log come from one clock.
    """

    def __init__(self, log: str) -> None:
        self._log = log
        self._found: dict[int, str] = {}

    def find_time(self, index: int) -> str:
        """Return the time of a line (from 0), or that of the nearest line before it.

        Before the first time of a log it is that one; UNKNOWN_TIME for a log without times.
        """
        at = index
        while at >= 0 and at not in self._found:
            if time := _parse_time(self._read_begin(at)):
                self._found[at] = time
                break
            at -= 1
        time = self._found[at] if at >= 0 else self._first
        # So that the lines before are not read again for each failure that is asked for.
        for between in range(index, at, -_STRIDE):
            self._found[between] = time
        return time

    @functools.cached_property
    def _ends(self) -> Sequence[int]:
        return array.array("q", _list_line_ends(self._log))

    @functools.cached_property
    def _first(self) -> str:
        clock = _CLOCK.search(self._log)
        if clock is None:
            return UNKNOWN_TIME
        line = bisect.bisect_left(self._ends, clock.start())
        begins = map(self._read_begin, range(line, len(self._ends)))
        return next(filter(None, map(_parse_time, begins)), UNKNOWN_TIME)

    def _read_begin(self, index: int) -> str:
        begin = self._ends[index - 1] + 1 if index else 0
        return self._log[begin : min(self._ends[index], begin + _PREFIX)]


def _list_line_ends(log: str) -> Iterator[int]:
    end = log.find("\n")
    while end >= 0:
        yield end
        end = log.find("\n", end + 1)
    yield len(log)


@functools.lru_cache(maxsize=_FEW_LOGS)  # a diagnosis reads each log several times
def read_entries(log: str) -> Sequence[LogLine]:
    """Return the lines of `log` without prefixes."""
    return tuple(milestones.parse_log_lines(log))


def join_entries(entries: Sequence[LogLine]) -> SearchText:
    """Return the text of `entries` for a search with patterns."""
    pieces = [entry.text for entry in entries]
    lines: Sequence[int] = range(len(pieces))
    if max(map(len, pieces), default=0) > LONGEST_LINE:
        cut = [(piece, line) for line in lines for piece in _cut_line(pieces[line])]
        pieces = [piece for piece, _ in cut]
        lines = array.array("q", (line for _, line in cut))
    starts = array.array("q", itertools.accumulate((len(piece) + 1 for piece in pieces), initial=0))
    return SearchText(text="\n".join(pieces), pieces=pieces, starts=starts, lines=lines)


def _cut_line(text: str) -> Iterator[str]:
    if len(text) <= LONGEST_LINE:
        yield text
        return
    for start in range(0, len(text) - _OVERLAP, LONGEST_LINE - _OVERLAP):
        yield text[start : start + LONGEST_LINE]


def _parse_time(line: str) -> str:
    match = _STAMP.search(line) if _CLOCK.search(line) else None
    if match is None:
        return ""
    day = match["day"] or match["short"]
    if match["tight"]:
        day = f"{match['tight'][:2]}-{match['tight'][2:]}"
    elif match["month"]:
        day = f"{_MONTHS.index(match['month']) + 1:02}-{match['date'].replace(' ', '0')}"
    return f"{day} {match['time'].replace(',', '.')}"

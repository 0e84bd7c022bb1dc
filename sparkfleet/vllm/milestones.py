"""The progress of a starting engine, read from the lines of its log.

Pure: text in, values out. Any line may be cut, empty or foreign; none raises. The messages are
those of vLLM 0.20.2 and 0.32.0, Ray 2.55 and huggingface_hub, from recorded logs and
from the sources of the installed engine.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\].*")
_SOURCE = re.compile(r"\s*\((?P<source>[^()]*\b(?:pid|ip)=[^()]*)\) ?")
_LEVELS = "DEBUG|INFO|WARNING|ERROR|CRITICAL|SUCC"
_STAMP = re.compile(
    rf"(?:\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\t)?(?:{_LEVELS})"
    r"(?:: +|(?: +\d\d-\d\d \d\d:\d\d:\d\d)?(?: \[[^\]\s]+:\d+\]| \S+\.py:\d+ --)?(?: |$))"
)
_TP_WORKER = re.compile(r"Worker_TP(?P<rank>\d+)(?:_EP\d+)?")
_RANK = re.compile(
    r"\bworld_size=(?P<size>\d+) rank=(?P<rank>\d+)\b"
    r"|\brank (?P<assigned>\d+) in world size (?P<of>\d+) is assigned\b"
)
_COPIED = re.compile(r"Copying the following environment variables[^:]*: \[(?P<names>.*)")


class Phase(enum.StrEnum):
    """The stages of a rank, in the order of a start."""

    IMPORTING = "importing"
    RESOLVING = "resolving model"
    JOINING = "joining Ray"
    PLACING = "waiting for placement"
    FORMING = "forming the group"
    DOWNLOADING = "downloading"
    LOADING = "loading"
    COMPILING = "compiling"
    CAPTURING = "capturing graphs"
    WARMING = "warming up"
    SERVING = "serving"


_PERCENT = r"\d+%(?: Completed \||\|[^|]*\|) *(?P<done>\d+)/(?P<total>\d+)"

# First match wins. "is bigger than a reserved number" is logged once the placement group is ready,
# "group leader" and "headless" when an mp executor starts: from there the worker processes import.
_PHASES: tuple[tuple[Phase, re.Pattern[str]], ...] = tuple(
    (phase, re.compile(pattern))
    for phase, pattern in (
        (Phase.SERVING, r"^Application startup complete\."),
        (Phase.LOADING, rf"oading .*: +{_PERCENT}"),
        (Phase.CAPTURING, rf"^Capturing .*: +{_PERCENT}"),
        (Phase.DOWNLOADING, rf"^Fetching \d+ files: +{_PERCENT}"),
        (Phase.DOWNLOADING, r"^Time spent downloading weights|ownloading bytes\b"),
        (Phase.DOWNLOADING, r"\.(?:safetensors|bin|gguf)\S*: +\d+%\|"),
        (Phase.IMPORTING, r"[█▀▄] +version \d|is bigger than a reserved number of"),
        (Phase.IMPORTING, r"^DP group leader: |^Launching vLLM .* headless "),
        (Phase.RESOLVING, r"^non-default args: |^Resolved architecture: |^Using max model len "),
        (Phase.JOINING, r"^Connecting to existing Ray cluster|^Connected to Ray cluster"),
        (Phase.JOINING, r"^Local node IP: |^Ray runtime started\."),
        (Phase.PLACING, r"^Waiting for creating a placement group|Creating a new placement group"),
        (Phase.FORMING, rf"{_RANK.pattern}|^vLLM is using nccl=="),
        (Phase.LOADING, r"^Starting to load model |^Loading weights took |^Model loading took "),
        (Phase.LOADING, r"^Initializing model took "),
        (Phase.COMPILING, r"^Using cache directory: .* for vLLM's torch\.compile"),
        (Phase.COMPILING, r"Dynamo bytecode transform time: |Compiling a graph for "),
        (Phase.COMPILING, r"Cache the graph of |Directly load |torch\.compile took "),
        (Phase.CAPTURING, r"^Capturing |^Graph capturing finished |^Profiling CUDA graph memory"),
        (Phase.WARMING, r"^Available KV cache memory: |^\w+ KV cache size: |GiB for KV cache "),
        (Phase.WARMING, r"^Maximum concurrency for |^init engine \(|^Warming up "),
        (Phase.WARMING, r"^Starting vLLM server on "),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line without colour, timestamps and prefixes.

    `process` and `pid` are those of the innermost prefix, `address` is the one that Ray adds for
    a process on another host than the driver's; None where the line has no such prefix.
    """

    text: str
    process: str | None = None
    pid: int | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """A line that reports the stage of a rank; `done` of `total` shards, files or graphs."""

    rank: int | None
    address: str | None
    pid: int | None
    phase: Phase
    text: str
    done: int | None = None
    total: int | None = None

    def __str__(self) -> str:
        if self.total is None:
            return str(self.phase)
        noun = " shard" if self.phase is Phase.LOADING else ""
        return f"{self.phase}{noun} {self.done} of {self.total}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlacement:
    """The place of a rank; `address` None is the host that wrote the log (the head, under Ray)."""

    rank: int
    address: str | None
    pid: int


def parse_log_line(line: str) -> LogLine:
    """Return `line` without prefixes; of a progress bar's redraws only the last one remains."""
    sources, rest = _strip_prefixes(ANSI.sub("", line))
    drawn = [part for part in rest.split("\r") if part.strip()]
    more, text = _strip_prefixes(drawn[-1] if drawn else "")
    sources += more
    if stamp := _STAMP.match(text):
        text = text[stamp.end() :]
    named = sources[-1] if sources else ""
    process = re.match(r"[\w.]+(?=[ ,])", named)
    pid = re.search(r"\bpid=(\d+)", named)
    address = re.search(r"\bip=([^,\s]+)", " ".join(sources))
    return LogLine(
        text=_REPEATED.sub("", text).rstrip(),
        process=process[0] if process else None,
        pid=int(pid[1]) if pid else None,
        address=address[1] if address else None,
    )


def parse_log_lines(log: str) -> Iterator[LogLine]:
    """Yield the lines of `log`, read."""
    return map(parse_log_line, log.split("\n"))


def parse_milestone(line: str) -> Milestone | None:
    """Return the milestone that `line` is, or None where it says nothing about progress.

    The rank is given only where the line itself names it; `placement` knows the rest.
    """
    entry = parse_log_line(line)
    for phase, pattern in _PHASES:
        if match := pattern.search(entry.text):
            groups = match.groupdict()
            return Milestone(
                rank=_find_rank(entry),
                address=entry.address,
                pid=entry.pid,
                phase=phase,
                text=entry.text.strip(" █▀▄"),
                done=_parse_progress_count(groups.get("done")),
                total=_parse_progress_count(groups.get("total")),
            )
    return None


def find_rank_placements(log: str) -> tuple[RankPlacement, ...]:
    """Return which process holds which rank, by rank, as far as `log` shows.

    Ray shows a line that several workers write only once, so that a rank's own lines can be
    missing: the only worker process without a rank then holds the only rank without a process.
    """
    seats: dict[int, tuple[str | None, int]] = {}
    workers: set[tuple[str | None, int]] = set()
    size = 0
    for entry in parse_log_lines(log):
        if entry.pid is None:
            continue
        if entry.process and "Worker" in entry.process:
            workers.add((entry.address, entry.pid))
        if (rank := _find_rank(entry)) is not None:
            seats[rank] = (entry.address, entry.pid)
        if match := _RANK.search(entry.text):
            size = int(match["size"] or match["of"])
    unranked = workers - set(seats.values())
    empty = set(range(size)) - set(seats)
    if len(unranked) == len(empty) == 1:
        seats[empty.pop()] = unranked.pop()
    return tuple(
        RankPlacement(rank=rank, address=address, pid=pid)
        for rank, (address, pid) in sorted(seats.items())
    )


def find_latest_milestones(log: str) -> dict[int | None, Milestone]:
    """Return the last milestone of each rank, and under None that of the processes without one.

    Once the value under None serves, the ranks have nothing to add: Ray shows a repeated line
    late, so that a rank's start can follow the ready line.
    """
    ranks = {(seat.address, seat.pid): seat.rank for seat in find_rank_placements(log)}
    milestones: dict[int | None, Milestone] = {}
    for milestone in filter(None, map(parse_milestone, log.split("\n"))):
        pid = milestone.pid
        rank = milestone.rank
        if rank is None and pid is not None:
            rank = ranks.get((milestone.address, pid))
        milestones[rank] = dataclasses.replace(milestone, rank=rank)
    return milestones


def find_copied_variables(log: str) -> tuple[str, ...]:
    """Return the names that vLLM says it copies from the head to the Ray workers.

    Source: the log line of vllm/ray/ray_env.py.
    """
    matches = (match["names"] for match in map(_COPIED.search, log.split("\n")) if match)
    return tuple(dict.fromkeys(name for names in matches for name in re.findall(r"'(\w+)'", names)))


def _strip_prefixes(text: str) -> tuple[list[str], str]:
    sources = []
    while match := _SOURCE.match(text):
        sources.append(match["source"])
        text = text[match.end() :]
    return sources, text


def _find_rank(entry: LogLine) -> int | None:
    """Return the rank that a line names; a TP rank is one only without PP and DP in the line."""
    if match := _RANK.search(entry.text):
        return int(match["rank"] or match["assigned"])
    match = _TP_WORKER.fullmatch(entry.process or "")
    return int(match["rank"]) if match else None


def _parse_progress_count(text: str | None) -> int | None:
    return None if text is None else int(text)

"""The progress of a starting engine, read from the lines of its log.

Pure: text in, values out. Any line may be cut, empty or foreign; none raises. The messages are
those of vLLM 0.20.2 and 0.32.0, Ray 2.55 and huggingface_hub, from recorded logs and
from the sources of the installed engine.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypedDict

from sparkfleet.values import parse_json

ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# The lookbehind lets only the first of many spaces start a match: else their number is squared.
_REPEATED = re.compile(r"(?<!\s)\s*\[repeated \d+x across cluster\].*")
_SOURCE = re.compile(r"\s*\((?P<source>[^()]*\b(?:pid|ip)=[^()]*)\) ?")
_LEVELS = "DEBUG|INFO|WARNING|ERROR|CRITICAL|SUCC"
_LEVEL = re.compile(_LEVELS)
_STAMP = re.compile(
    rf"(?:\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\t)?(?:{_LEVELS})"
    r"(?:: +|(?: +(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?)?"
    r"(?: \[[^\]\s]+:\d+\]| \S+\.py:\d+(?: --|\]))?(?: |$))"
)
# What carries a log adds a prefix to each line: `docker logs -t`, journald, docker compose,
# kubectl, torchrun, mpirun and the kernel (`dmesg -T` too). A Chinese locale numbers the months.
# The C++ parts of Ray begin theirs with a date, a level and two numbers, those of PyTorch and other
# users of Google's library with a level and a source; Docker's daemon quotes its fields, and
# Podman shortens the level.
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_CARRIERS = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?:? (?: *)"
    rf"|(?:{_MONTHS}) [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})? [\w.-]{{1,64}} "
    r"[\w.@/-]{1,64}(?:\[\d{1,9}\])?: ?"
    r"|(?<=T\d\d:\d\d:\d\d[+-]\d\d:\d\d )[\w.-]{1,64} [\w.@/-]{1,64}\[\d{1,9}\]: ?"
    r"|(?<=T\d\d:\d\d:\d\d[+-]\d{4} )[\w.-]{1,64} [\w.@/-]{1,64}\[\d{1,9}\]: ?"
    r"|(?<=T\d\d:\d\d:\d\d\.\d{6}[+-]\d\d:\d\d )[\w.-]{1,64} [\w.@/-]{1,64}\[\d{1,9}\]: ?"
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] (?:\[[\w/.-]{1,40}\]: )?"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,6} {1,3}(?:\||>>) "
    r"|[\w.-]{1,64} {1,40}\| "
    r"|\[pod/[\w./-]{1,200}\] "
    r"|\[(?:rank|default)?\d{1,4}\]: ?"
    r"|\[\d{1,4}\] ?(?!NCCL)"
    r"|\[\d{1,4},\d{1,5}\]<std(?:out|err)>: ?"
    r"|(?:kernel: ?)?\[ {0,6}\d{1,7}\.\d{6}\] (?:systemd[\w-]{0,20}\[\d{1,9}\]: )?"
    rf"|\[\w{{3}} (?:{_MONTHS}) [ \d]\d \d\d:\d\d:\d\d \d{{4}}\] |kernel: "
    r"|\d{1,2}\u6708 [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,64} [\w.@/-]{1,64}(?:\[\d{1,9}\])?: ?"
)
_RAY_STAMP = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?P<level>[DIWECF]) \d{1,9} \d{1,9}\] "
    r"(?:\([\w-]{1,40}\) )?(?:[\w./-]{1,200}:\d{1,7}: )?"
)
_GLOG_STAMP = re.compile(
    r"\[?(?P<level>[IWEF])\d{0,4} (?:\d\d:\d\d:\d\d\.\d{1,9} {1,9}(?:\d{1,9} ){0,2})?"
    r"[\w./-]{1,200}\.(?:cpp|cc|cxx|h|hpp|cu|go|py):\d{1,7}\] "
    r"(?:\[\d{1,4}/\d{1,4}(?:_\d{1,4})?\] )?"
)
_QUOTED_FIELDS = re.compile(
    r'time="[^"\n]{1,40}" level=(?P<level>[a-z]{1,10}) msg="(?P<text>(?:[^"\\\n]|\\.){1,8000})"'
)
_SHORT_STAMP = re.compile(r"(?P<level>DEBU|INFO|WARN|ERRO|FATA|PANI)\[\d{1,9}\] {1,2}")
_SHORT_LEVELS = {"DEBU": "DEBUG", "WARN": "WARNING", "ERRO": "ERROR", "FATA": "FATAL"}
_RAY_LEVELS = {"D": "DEBUG", "W": "WARNING", "E": "ERROR", "C": "CRITICAL", "F": "CRITICAL"}
_JSON_TEXTS = ("log", "message", "msg", "MESSAGE", "event", "text")
_JSON_LEVELS = ("level", "levelname", "severity")
_MAX_CARRIERS = 6  # prefixes of a line
_PROCESS = re.compile(r"[\w.]+(?=[ ,])")
MAX_DIGITS = 9  # of a count
_MAX_KNOWN = 10_000  # lines of a log that are kept to be compared with later ones
_PID = re.compile(r"\bpid=(\d{1,9})\b")
_ADDRESS = re.compile(r"\bip=([^,\s]+)")
_TP_WORKER = re.compile(r"Worker_TP(?P<rank>\d{1,5})(?:_EP\d+)?")
_RANK = re.compile(
    r"\bworld_size=(?P<size>\d{1,5}(?!\d)) rank=(?P<rank>\d{1,5}(?!\d))\b"
    r"|\brank (?P<assigned>\d{1,5}(?!\d)) in world size (?P<of>\d{1,5}(?!\d)) is assigned\b"
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
        (Phase.LOADING, rf"oading .{{0,300}}: +{_PERCENT}"),
        (Phase.CAPTURING, rf"^Capturing .*: +{_PERCENT}"),
        (Phase.DOWNLOADING, rf"^Fetching \d+ files: +{_PERCENT}"),
        (Phase.DOWNLOADING, r"^Time spent downloading weights|ownloading bytes\b"),
        (Phase.DOWNLOADING, r"\.(?:safetensors|bin|gguf)\S{0,200}: +\d+%\|"),
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
    a process on another host than the driver's; None where the line has no such prefix. `level`
    is the severity that the line states, in capitals, "" if it states none.
    """

    text: str
    process: str | None = None
    pid: int | None = None
    address: str | None = None
    level: str = ""


class _Source(TypedDict):
    """The process that a line's prefix names."""

    process: str | None
    pid: int | None
    address: str | None


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
    level, line = _unwrap_json(ANSI.sub("", line) if "\x1b" in line else line)
    sources, rest = _strip_prefixes(line)
    if "\r" in rest:
        drawn = [part for part in rest.split("\r") if part.strip()]
        more, rest = _strip_prefixes(drawn[-1] if drawn else "")
        sources += more
    if stamp := _STAMP.match(rest):
        found = _LEVEL.search(stamp[0])
        level = found[0] if found else level
        rest = rest[stamp.end() :]
        if stamp.end() and rest.startswith("("):
            more, rest = _strip_prefixes(rest)
            sources += more
    elif stamp := _RAY_STAMP.match(rest) or _GLOG_STAMP.match(rest):
        level = _RAY_LEVELS.get(stamp["level"], "INFO")
        rest = rest[stamp.end() :]
    elif stamp := _SHORT_STAMP.match(rest):
        level = _SHORT_LEVELS.get(stamp["level"], stamp["level"])
        rest = rest[stamp.end() :]
    elif fields := _QUOTED_FIELDS.match(rest):
        level = fields["level"].upper()
        rest = fields["text"]
    text = _cut_repeated(rest)
    if not sources:
        return LogLine(text=text, level=level)
    return LogLine(text=text, level=level, **_read_sources(sources))


def _cut_repeated(text: str) -> str:
    return (_REPEATED.sub("", text) if "[repeated " in text else text).rstrip()


def _read_sources(sources: list[str]) -> _Source:
    process = _PROCESS.match(sources[-1])
    pid = _PID.search(sources[-1])
    address = _ADDRESS.search(" ".join(sources))
    return _Source(
        process=process[0] if process else None,
        pid=int(pid[1]) if pid else None,
        address=address[1] if address else None,
    )


def _unwrap_json(line: str) -> tuple[str, str]:
    """Return the level and the message of a line of JSON, ("", `line`) for any other line."""
    if not line.startswith("{") or not line.rstrip().endswith("}"):
        return "", line
    try:
        fields = parse_json(line)
    except ValueError:
        return "", line
    inner = fields.get("fields")  # Rust programs, such as hf-xet
    found = {**fields, **inner} if isinstance(inner, dict) else fields
    texts = [found[name] for name in _JSON_TEXTS if isinstance(found.get(name), str)]
    if not texts:
        return "", line
    level = next((str(fields[name]) for name in _JSON_LEVELS if name in fields), "")
    # An event can hold several lines; what joins them must not look like a line's end here.
    return level.upper(), " | ".join(texts[0].splitlines())


def parse_log_lines(log: str) -> Iterator[LogLine]:
    """Yield the parsed lines of `log`; equal lines are parsed once, as long as they are few."""
    known: dict[str, LogLine] = {}
    for line in log.split("\n"):
        entry = known.get(line)
        if entry is None:
            if len(known) >= _MAX_KNOWN:
                known.clear()
            entry = known[line] = parse_log_line(line)
        yield entry


def parse_milestone(line: str) -> Milestone | None:
    """Return the milestone that `line` is, or None where it says nothing about progress.

    The rank is given only where the line itself names it; `find_rank_placements` finds the others.
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
    return place_ranks(parse_log_lines(log))


def place_ranks(entries: Iterable[LogLine]) -> tuple[RankPlacement, ...]:
    """Return what `find_rank_placements` does, for lines that were read before."""
    seats: dict[int, tuple[str | None, int]] = {}
    workers: set[tuple[str | None, int]] = set()
    size = 0
    for entry in entries:
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
    """Return the processes that the prefixes of `text` name, and `text` without all prefixes."""
    sources = []
    at = 0
    for _ in range(_MAX_CARRIERS):
        carrier = _CARRIERS.match(text, at)
        if carrier is None:
            break
        at = carrier.end()
    while match := _SOURCE.match(text, at):
        sources.append(match["source"])
        at = match.end()
    return sources, text[at:]


def _find_rank(entry: LogLine) -> int | None:
    """Return the rank that a line names; a TP rank is one only without PP and DP in the line."""
    if match := _RANK.search(entry.text):
        return int(match["rank"] or match["assigned"])
    match = _TP_WORKER.fullmatch(entry.process or "")
    return int(match["rank"]) if match else None


def _parse_progress_count(text: str | None) -> int | None:
    return None if text is None or len(text) > MAX_DIGITS else int(text)

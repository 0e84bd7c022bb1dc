"""Find known failures in the logs of a start: causes first, then their consequences."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from sparkfleet.doctor.signatures import SIGNATURES, Clues, FailureRole, Signature
from sparkfleet.door import expand_commands
from sparkfleet.model import Severity
from sparkfleet.vllm import milestones
from sparkfleet.vllm.milestones import LogLine

NO_NAMES: Mapping[str, str] = MappingProxyType({})
_RAY_NODE = re.compile(
    r"Local node IP: (?P<own>[^\s,]+)"
    r"|Connecting to existing Ray cluster at address: (?P<head>[^\s:]+):"
    r"|ray start --address='(?P<join>[^\s:']+):"
)
_RAY_TASK = re.compile(r"RayTaskError\(.*\(pid=\d+, ip=(?P<address>[^\s,)]+)")
_STAMP = re.compile(
    r"(?<!\d)(?:\d{4}-(?P<day>\d\d-\d\d)|(?P<short>\d\d-\d\d)|[EFIW](?P<tight>\d{4}))"
    r" (?P<time>\d\d:\d\d:\d\d)"
)
_EXCEPTION = re.compile(
    r"^(?!ray\.exceptions\.RayTaskError)"
    r"(?:[\w.]*\.)?[A-Z]\w*(?:Error|Exception)(?:\([^)]*\))?: \S|^[\w ]+: error: \S"
)
_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b")
LONGEST_TRACEBACK = 200  # lines
_UNKNOWN_TIME = "~"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFinding:
    """A known failure: line `line` (from 1) of the log named `log` says `text`.

    `host` is where it happened: the host of the log, or a worker whose line Ray copied to the
    head's log; an address if its host is unknown.
    """

    id: str
    role: FailureRole
    host: str
    log: str
    line: int
    text: str
    cause: str
    fix: str
    source: str

    @property
    def severity(self) -> Severity:
        """ERROR for a failure that can stop a start, WARNING for one that may be harmless."""
        return self.role.severity

    @property
    def explains(self) -> bool:
        """Whether this explains why the start failed, not only that it did."""
        return self.role in {FailureRole.CAUSE, FailureRole.SYMPTOM}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLine:
    """The most significant line of a log, `line` counted from 1."""

    line: int
    text: str


def find_known_failures(
    logs: Mapping[str, str],
    *,
    hosts: Mapping[str, str] = NO_NAMES,
    addresses: Mapping[str, str] = NO_NAMES,
) -> tuple[LogFinding, ...]:
    """Return the known failures in `logs` (name to text), causes first, then by time.

    `hosts` gives the host of each log that is not named by its host; `addresses` the host of each
    address that Ray prints before a worker's line, in addition to those in Ray's own logs. Each
    failure is returned once per host. Times are compared between hosts, where logs have any.
    """
    hosts = {name: hosts.get(name, name) for name in logs}
    clues = _collect_clues(logs)
    addresses = {**_map_ray_addresses(logs, hosts), **addresses}
    dated = [
        (time, replace(item, host=item.host or hosts[name]))
        for name, log in logs.items()
        for time, item in _find_failures(name, log, clues, addresses)
    ]
    dated.sort(key=lambda pair: (pair[1].role, pair[0]))
    first: dict[tuple[str, str], LogFinding] = {}
    for _, finding in dated:
        first.setdefault((finding.id, finding.host), finding)
    return tuple(first.values())


def find_first_error(log: str) -> ErrorLine | None:
    """Return the most significant exception of a log, for a failure without a signature.

    It is the last exception that is not a consequence of another, else the first line of level
    ERROR; None if the log has neither.
    """
    entries = [(raw, milestones.parse_log_line(raw).text) for raw in log.split("\n")]
    candidates = [
        (raw, ErrorLine(line=number, text=text))
        for number, (raw, text) in enumerate(entries, start=1)
        if text and not _is_consequence(text)
    ]
    exceptions = [error for _, error in candidates if _EXCEPTION.match(error.text)]
    errors = [error for raw, error in candidates if _ERROR.search(raw)]
    return next(iter([*reversed(exceptions), *errors]), None)


def _find_failures(
    name: str, log: str, clues: Clues, addresses: Mapping[str, str]
) -> Iterator[tuple[str, LogFinding]]:
    """Yield each known failure with the time of its line; a host of "" means the log's host."""
    raw = log.split("\n")
    entries = [milestones.parse_log_line(line) for line in raw]
    starts = [0, *itertools.accumulate(len(entry.text) + 1 for entry in entries)]
    text = "\n".join(entry.text for entry in entries)
    times = _list_line_times(raw)
    for signature, match in _match_signatures(text, clues):
        index = bisect.bisect_right(starts, match.start()) - 1
        groups = match.groupdict("?") | {"ray": ", ".join(sorted(clues.ray)) or "other addresses"}
        address = entries[index].address or _find_task_address(entries, index)
        if "rank" in groups:
            address = _find_rank_address(log, groups["rank"])
        yield (
            times[index],
            LogFinding(
                id=signature.id,
                role=signature.role,
                host=addresses.get(address, address) if address else "",
                log=name,
                line=index + 1,
                text=entries[index].text.strip(),
                cause=signature.cause.format_map(groups),
                fix=expand_commands(signature.fix).format_map(groups),
                source=signature.source,
            ),
        )


def _find_task_address(entries: Sequence[LogLine], index: int) -> str | None:
    """Return the address of the Ray task whose traceback ends at `index`, None if none does.

    The driver prints the exception of a remote task without the prefix of its host; the first line
    of the traceback has the address.
    """
    for entry in reversed(entries[max(0, index - LONGEST_TRACEBACK) : index]):
        if task := _RAY_TASK.search(entry.text):
            return task["address"]
        if entry.text[:1].strip():
            return None  # not indented: another line's traceback, or none
    return None


def _match_signatures(text: str, clues: Clues) -> Iterator[tuple[Signature, re.Match[str]]]:
    for signature in SIGNATURES:
        for match in signature.matches(text):
            if signature.holds(match, clues):
                yield signature, match


def _find_rank_address(log: str, rank: str) -> str | None:
    """Return the address of `rank`, None for the host of the log or an unknown one."""
    return next(
        (at.address for at in milestones.find_rank_placements(log) if str(at.rank) == rank), None
    )


def _collect_clues(logs: Mapping[str, str]) -> Clues:
    matches = [match for log in logs.values() for match in _RAY_NODE.finditer(log)]
    return Clues(ray=frozenset(match["own"] or match["head"] or match["join"] for match in matches))


def _map_ray_addresses(logs: Mapping[str, str], hosts: Mapping[str, str]) -> dict[str, str]:
    """Return the host of each address in Ray's own log lines.

    `ray start` prints its own address; vLLM runs on Ray's head, whose address it connects to.
    """
    matches = [(match, hosts[name]) for name in logs for match in _RAY_NODE.finditer(logs[name])]
    heads = {match["head"]: host for match, host in matches if match["head"]}
    return heads | {match["own"]: host for match, host in matches if match["own"]}


def _list_line_times(raw: list[str]) -> list[str]:
    """Return for each line its `MM-DD hh:mm:ss`, or that of the nearest line before it."""
    stamps = [_parse_line_time(line) for line in raw]
    first = next(filter(None, stamps), _UNKNOWN_TIME)
    return list(itertools.accumulate(stamps, lambda last, current: current or last, initial=first))[
        1:
    ]


def _parse_line_time(line: str) -> str:
    match = _STAMP.search(line)
    if match is None:
        return ""
    tight = match["tight"]
    day = match["day"] or match["short"] or f"{tight[:2]}-{tight[2:]}"
    return f"{day} {match['time']}"


def _is_consequence(text: str) -> bool:
    return any(
        re.search(signature.pattern, text)
        for signature in SIGNATURES
        if signature.role is FailureRole.CONSEQUENCE
    )

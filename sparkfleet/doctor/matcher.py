"""Find known failures in the logs of a start: causes first, then their consequences."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from sparkfleet.command_name import expand_commands
from sparkfleet.doctor.events import LineTimes, SearchText, join_entries, read_entries
from sparkfleet.doctor.line_index import LineIndex
from sparkfleet.doctor.search import index_pieces, search_pieces
from sparkfleet.doctor.signatures import SIGNATURES, Clues, FailureRole, Signature
from sparkfleet.doctor.subjects import LineSubjects, map_node_ids
from sparkfleet.model import Severity
from sparkfleet.vllm import milestones

NO_NAMES: Mapping[str, str] = MappingProxyType({})
_RAY_NODE = re.compile(
    r"Local node IP: (?P<own>[^\s,]+)"
    r"|Connecting to existing Ray cluster at address: (?P<head>[^\s:]+):"
    r"|ray start --address='(?P<join>[^\s:']+):"
)
_LEADS_TO = {signature.id: signature.leads_to for signature in SIGNATURES}
_FALLBACKS = frozenset(signature.id for signature in SIGNATURES if signature.fallback)
_UNKNOWN_GROUP = "unknown"
_RANK = "(?P<rank>"
# What is shown where no earlier line has it.
_UNKNOWN = {
    "own": "this host",
    "warning": "none in this log",
    "raised": "none in this log",
    "why": "its compiler's messages are not in this log",
}
_LONGEST_SHOWN = 600  # characters of a line
_SHOWN_BEFORE = 100  # of them before the match


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
    addresses = {**map_ray_addresses(logs, hosts), **addresses}
    dated = [
        (time, replace(item, host=item.host or hosts[name]))
        for name, log in logs.items()
        for time, item in _find_failures(name, log, clues, addresses)
    ]
    order = {name: index for index, name in enumerate(logs)}
    dated.sort(key=lambda pair: (pair[0], order[pair[1].log], pair[1].line))
    first: dict[tuple[str, str], LogFinding] = {}
    for _, finding in dated:
        first.setdefault((finding.id, finding.host), finding)
    return tuple(sorted(_demote_consequences(first.values()), key=lambda finding: finding.role))


def _demote_consequences(findings: Iterable[LogFinding]) -> list[LogFinding]:
    """Return `findings`, where one that follows from another of its host is a consequence."""
    findings = list(findings)
    followers = {
        (id_, finding.host)
        for finding in findings
        for id_ in _LEADS_TO.get(finding.id, ())
        if finding.explains
    }
    explained = {
        item.host
        for item in findings
        if item.explains and item.id not in _FALLBACKS and (item.id, item.host) not in followers
    }
    return [
        replace(finding, role=FailureRole.CONSEQUENCE)
        if finding.explains
        and (
            (finding.id, finding.host) in followers
            or (finding.id in _FALLBACKS and finding.host in explained)
        )
        else finding
        for finding in findings
    ]


def _find_failures(
    name: str, log: str, clues: Clues, addresses: Mapping[str, str]
) -> Iterator[tuple[str, LogFinding]]:
    """Yield each known failure with the time of its line; a host of "" means the log's host."""
    entries = read_entries(log)
    searched = join_entries(entries)
    log_search = _LogSearch(
        log=log,
        searched=searched,
        index=index_pieces(searched),
        subjects=LineSubjects(entries, searched.text, clues.nodes),
    )
    times = LineTimes(log)
    for signature in SIGNATURES:
        for match, address in _find_firsts(signature, log_search, clues):
            piece = searched.find_piece(match.start())
            line = searched.lines[piece]
            groups = _collect_groups(signature, match, clues)
            yield (
                times.find_time(line),
                LogFinding(
                    id=signature.id,
                    role=signature.role,
                    host=addresses.get(address, address) if address else "",
                    log=name,
                    line=line + 1,
                    text=_cut_around(
                        searched.pieces[piece], match.start() - searched.starts[piece]
                    ),
                    cause=signature.cause.format_map(groups),
                    fix=expand_commands(signature.fix).format_map(groups),
                    source=signature.source,
                ),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogSearch:
    """A log that is searched for failures."""

    log: str
    searched: SearchText
    index: LineIndex
    subjects: LineSubjects


def _find_firsts(
    signature: Signature, search: _LogSearch, clues: Clues
) -> Iterator[tuple[re.Match[str], str | None]]:
    """Yield the first match of a failure for each address that a log names, with that address."""
    searched = search.searched
    subjects = search.subjects
    ranked = _RANK in signature.pattern  # which is compiled only where its words are
    seen: set[str | None] = set()

    def is_known(piece: int) -> bool:
        return subjects.find_address(searched.lines[piece]) in seen

    asked = None if ranked or subjects.has_none else is_known
    for match in search_pieces(signature.pattern, searched, search.index, asked):
        if not signature.holds(match, clues):
            continue
        address = subjects.find_address(searched.lines[searched.find_piece(match.start())])
        if ranked:
            address = _map_rank_addresses(search.log).get(match["rank"])
        if address not in seen:
            seen.add(address)
            yield match, address
        if subjects.has_none and not ranked:
            return


def _collect_groups(signature: Signature, match: re.Match[str], clues: Clues) -> Mapping[str, str]:
    """Return the words that a cause and a fix may name."""
    ray = ", ".join(sorted(clues.ray)) or "other addresses"
    earlier = signature.find_context(match.string, match.start())
    words = {**_UNKNOWN, **earlier, **match.groupdict(_UNKNOWN_GROUP), "ray": ray}
    return {name: " ".join(word.split()) for name, word in words.items()}


def _cut_around(text: str, start: int) -> str:
    """Return `text`, or of a long line the part from shortly before `start`."""
    if len(text) <= _LONGEST_SHOWN:
        return text.strip()
    start = max(0, start - _SHOWN_BEFORE)
    return text[start : start + _LONGEST_SHOWN].strip()


@functools.lru_cache(maxsize=1)  # a log that names a rank often names it thousands of times
def _map_rank_addresses(log: str) -> Mapping[str, str | None]:
    """Return the address of each rank, None for the host of the log."""
    return {str(seat.rank): seat.address for seat in milestones.place_ranks(read_entries(log))}


def _collect_clues(logs: Mapping[str, str]) -> Clues:
    matches = [match for log in logs.values() for match in _RAY_NODE.finditer(log)]
    return Clues(
        ray=frozenset(match["own"] or match["head"] or match["join"] for match in matches),
        nodes=map_node_ids(logs.values()),
    )


def map_ray_addresses(logs: Mapping[str, str], hosts: Mapping[str, str]) -> dict[str, str]:
    """Return the host of each address in Ray's own log lines.

    `ray start` prints its own address; vLLM runs on Ray's head, whose address it connects to.
    """
    matches = [(match, hosts[name]) for name in logs for match in _RAY_NODE.finditer(logs[name])]
    heads = {match["head"]: host for match, host in matches if match["head"]}
    return heads | {match["own"]: host for match, host in matches if match["own"]}

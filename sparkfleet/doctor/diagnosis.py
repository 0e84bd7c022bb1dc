"""Diagnosis of a failed start: its causes, or its first errors where no cause is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.doctor import run_log
from sparkfleet.doctor.events import read_entries
from sparkfleet.doctor.logs import LogBundle
from sparkfleet.doctor.matcher import (
    NO_NAMES,
    LogFinding,
    find_known_failures,
    map_ray_addresses,
)
from sparkfleet.doctor.reasons import find_first_error
from sparkfleet.doctor.run_log import RunFailure
from sparkfleet.doctor.signatures import FailureRole
from sparkfleet.doctor.subjects import find_subject


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstError:
    """The innermost reason in a host's logs, for a failure without a signature.

    `chain` are the heads of the exceptions that wrap it, the innermost first.
    """

    host: str
    log: str
    line: int
    text: str
    chain: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Result of a diagnosis.

    `causes` explain the failure, the earliest first; `warnings` may do so, or be harmless.
    `errors`, one per host, are set where no cause is known. `refusals` and `last_words` are from
    the run's own log.
    """

    causes: tuple[LogFinding, ...]
    warnings: tuple[LogFinding, ...]
    errors: tuple[FirstError, ...]
    refusals: tuple[RunFailure, ...]
    last_words: tuple[str, ...]


def diagnose_logs(bundle: LogBundle, *, addresses: Mapping[str, str] = NO_NAMES) -> Diagnosis:
    """Diagnose the logs of `bundle`; `addresses` maps fabric addresses to hosts, where known."""
    findings = find_known_failures(
        {log.name: log.text for log in bundle.logs},
        hosts={log.name: log.host for log in bundle.logs},
        addresses=addresses,
    )
    causes = tuple(finding for finding in findings if finding.explains)
    return Diagnosis(
        causes=causes,
        warnings=tuple(finding for finding in findings if finding.role is FailureRole.WARNING),
        errors=() if causes else _collect_first_errors(bundle, addresses),
        refusals=run_log.find_run_failures(bundle.account),
        last_words=run_log.find_last_lines(bundle.account),
    )


def _collect_first_errors(
    bundle: LogBundle, addresses: Mapping[str, str]
) -> tuple[FirstError, ...]:
    logs = {log.name: log.text for log in bundle.logs}
    ray = map_ray_addresses(logs, {log.name: log.host for log in bundle.logs})
    errors: dict[str, FirstError] = {}
    for log in bundle.logs:
        if error := find_first_error(log.text):
            entry = read_entries(log.text)[error.line - 1]
            address = find_subject(entry.text) or entry.address or ""
            host = {**ray, **addresses}.get(address, address) or log.host
            errors[host] = FirstError(
                host=host, log=log.name, line=error.line, text=error.text, chain=error.chain
            )
    return tuple(errors.values())

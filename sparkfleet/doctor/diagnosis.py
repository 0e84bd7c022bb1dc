"""What is known about a failed start: its causes, or what is left to say where none is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.doctor import account
from sparkfleet.doctor.account import Refusal
from sparkfleet.doctor.logs import Case
from sparkfleet.doctor.matcher import NONE, Finding, diagnose, first_error
from sparkfleet.doctor.signatures import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstError:
    """The line of a host's logs that tells most about a failure that no signature knows."""

    host: str
    log: str
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a case shows.

    `causes` explain the failure, the first one first; `warnings` may do so, or be harmless.
    `errors`, one a host, are there where nothing explains it. `refusals` and `last_words` are what
    the run itself said of its end.
    """

    causes: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    errors: tuple[FirstError, ...]
    refusals: tuple[Refusal, ...]
    last_words: tuple[str, ...]


def examine(case: Case, *, addresses: Mapping[str, str] = NONE) -> Diagnosis:
    """Return what `case` shows; `addresses` gives the hosts of fabric addresses, where known."""
    findings = diagnose(
        {log.name: log.text for log in case.logs},
        hosts={log.name: log.host for log in case.logs},
        addresses=addresses,
    )
    causes = tuple(found for found in findings if found.explains)
    return Diagnosis(
        causes=causes,
        warnings=tuple(found for found in findings if found.role is Role.WARNING),
        errors=() if causes else _first_errors(case),
        refusals=account.refusals(case.account),
        last_words=account.last_words(case.account),
    )


def _first_errors(case: Case) -> tuple[FirstError, ...]:
    found: dict[str, FirstError] = {}
    for log in case.logs:
        if error := first_error(log.text):
            found[log.host] = FirstError(
                host=log.host, log=log.name, line=error.line, text=error.text
            )
    return tuple(found.values())

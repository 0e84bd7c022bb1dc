"""The exit code of a task, from its findings and the hosts that failed: docs/exit-codes.md."""

from __future__ import annotations

from collections.abc import Iterable

from sparkfleet.errors import HostError, MixedError, SparkfleetError, UnreachableError


def compute_exit_code(errors: Iterable[SparkfleetError] = (), *, refused: bool = False) -> int:
    """Return the exit code of a task from the errors of hosts: 0, 2, 4 or 6.

    `refused` says that a check or a verdict refused, which counts like a host that failed.
    """
    codes = {
        UnreachableError.exit_code if isinstance(error, UnreachableError) else HostError.exit_code
        for error in errors
    }
    if refused:
        codes.add(HostError.exit_code)
    return MixedError.exit_code if len(codes) > 1 else next(iter(codes), 0)


def compute_error_exit_code(error: SparkfleetError) -> int:
    """Return the exit code of a task that `error` stopped, together with those of other hosts."""
    failures = (error, *error.others)
    if all(isinstance(failure, HostError) for failure in failures):
        code = compute_exit_code(failures)
        return code if code == MixedError.exit_code else error.exit_code
    return error.exit_code

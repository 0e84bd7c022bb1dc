"""The exit code of a task, from its findings and the hosts that failed: docs/exit-codes.md.

The codes themselves belong to the errors of `sparkfleet.errors`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkfleet.errors import (
    HostError,
    MixedError,
    SparkfleetError,
    UnreachableError,
    combine_exit_codes,
)

REFUSED = HostError.exit_code  # a check or a verdict refused


def compute_exit_code(errors: Iterable[SparkfleetError] = (), *, refused: bool = False) -> int:
    """Return the exit code of a task from the errors of hosts: 0, 2, 4 or 6.

    `refused` says that a check or a verdict refused, which counts like a host that failed.
    """
    lost = [isinstance(error, UnreachableError) for error in errors]
    return combine_exit_codes(failed=refused or not all(lost), unreachable=any(lost))


def combine_cluster_codes(codes: Iterable[int]) -> int:
    """Return the exit code of several clusters together: the worst, 6 for those of 2 and of 4."""
    seen = set(codes)
    both = combine_exit_codes(
        failed=HostError.exit_code in seen, unreachable=UnreachableError.exit_code in seen
    )
    return max(0, both, *seen)


def compute_error_exit_code(error: SparkfleetError) -> int:
    """Return the exit code of a task that `error` stopped, together with those of other hosts."""
    failures = (error, *error.others)
    if all(isinstance(failure, HostError) for failure in failures):
        code = compute_exit_code(failures)
        return code if code == MixedError.exit_code else error.exit_code
    return error.exit_code

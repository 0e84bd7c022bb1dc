"""The JSON document of a task."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from sparkfleet.errors import SparkfleetError
from sparkfleet.model import Verdict
from sparkfleet.report import json


def print_document(*, in_line: bool = False, **content: Any) -> None:
    """Print the JSON document of a task on standard output, on one line where more follow."""
    json.write_document(json.build_document(**content), sys.stdout, in_line=in_line)


def serialize_verdicts(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """Return verdicts with all their fields."""
    return [asdict(verdict) for verdict in verdicts]


def serialize_host_errors(errors: Mapping[str, SparkfleetError]) -> dict[str, dict[str, Any]]:
    """Return the first problem of each host that failed, by host."""
    return {name: json.serialize_problem(error.problems[0]) for name, error in errors.items()}

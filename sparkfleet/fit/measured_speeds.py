"""Measurements of `serve.bench` on a cluster, kept in `speeds.json` on its head; pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from sparkfleet.fit.cost_model import DecodeStep, Sample
from sparkfleet.values import parse_json

FILE = "speeds.json"
FORMAT_VERSION = 1  # of the file; another one does not count
MAX_KEPT = 64  # measurements that are kept, the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """A step of so many requests at once with so many tokens in the cache, and when it was."""

    recipe: str
    nodes: int
    requests: int
    context: int
    at: str  # ISO 8601, UTC
    sample: Sample

    @property
    def kind(self) -> tuple[str, int, int, int]:
        """The key by which a newer measurement replaces an older one."""
        return (self.recipe, self.nodes, self.requests, self.context)


def format_speeds_path(cluster_dir: str, cluster: str) -> str:
    """Return where the file is on the head; ``~`` is expanded there."""
    return f"{cluster_dir}/{cluster}/{FILE}"


def format_measurements(earlier: Sequence[MeasuredStep], news: Iterable[MeasuredStep]) -> str:
    """Return the text of the file with `news`, each in the place of an older one of its kind."""
    newest = {
        measurement.kind: measurement
        for measurement in sorted((*earlier, *news), key=lambda measurement: measurement.at)
    }
    rows = [asdict(measurement) for measurement in list(newest.values())[-MAX_KEPT:]]
    return json.dumps({"form": FORMAT_VERSION, "measured": rows}, indent=1) + "\n"


def parse_measurements(text: str) -> tuple[MeasuredStep, ...]:
    """Return what a file holds; nothing for a file of another form."""
    try:
        content = parse_json(text)
        rows = content["measured"] if content["form"] == FORMAT_VERSION else ()
        measurements = tuple(_parse_measurement(row) for row in rows)
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()
    return tuple(measurement for measurement in measurements if measurement.sample.seconds > 0)


def _parse_measurement(row: dict[str, object]) -> MeasuredStep:
    sample = row.pop("sample")
    if not isinstance(sample, dict):
        raise TypeError(sample)
    seconds = float(sample["seconds"])
    return MeasuredStep(sample=Sample(step=DecodeStep(**sample["step"]), seconds=seconds), **row)  # type: ignore[arg-type] # JSON

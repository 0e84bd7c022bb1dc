"""What `serve.bench` measured on a cluster, as `speeds.json` on its head keeps it; pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from sparkfleet.fit.terms import Sample, Step

FILE = "speeds.json"
FORM = 1  # of the file; another one does not count
MOST = 64  # measurements that are kept, the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A step of so many requests at once with so many tokens in the cache, and when it was."""

    recipe: str
    nodes: int
    requests: int
    context: int
    at: str  # ISO 8601, UTC
    sample: Sample

    @property
    def kind(self) -> tuple[str, int, int, int]:
        """What a newer measurement replaces."""
        return (self.recipe, self.nodes, self.requests, self.context)


def path(cluster_dir: str, cluster: str) -> str:
    """Return where the file is on the head; ``~`` is expanded there."""
    return f"{cluster_dir}/{cluster}/{FILE}"


def write(known: Sequence[Measured], news: Iterable[Measured]) -> str:
    """Return the text of the file with `news`, each in the place of an older one of its kind."""
    kept = {one.kind: one for one in sorted((*known, *news), key=lambda one: one.at)}
    rows = [asdict(one) for one in list(kept.values())[-MOST:]]
    return json.dumps({"form": FORM, "measured": rows}, indent=1) + "\n"


def read(text: str) -> tuple[Measured, ...]:
    """Return what a file holds; nothing where it is none of ours, or of another form."""
    try:
        content = json.loads(text)
        rows = content["measured"] if content["form"] == FORM else ()
        found = tuple(_measured(row) for row in rows)
    except (ValueError, TypeError, KeyError, AttributeError):
        return ()
    return tuple(one for one in found if one.sample.seconds > 0)


def _measured(row: dict[str, object]) -> Measured:
    sample = row.pop("sample")
    if not isinstance(sample, dict):
        raise TypeError(sample)
    seconds = float(sample["seconds"])
    return Measured(sample=Sample(step=Step(**sample["step"]), seconds=seconds), **row)  # type: ignore[arg-type] # JSON

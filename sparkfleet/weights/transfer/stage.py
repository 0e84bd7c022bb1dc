"""Stage a model on hosts: find what each lacks, transfer it, and verify it."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sparkfleet.model import EMPTY, Severity, Verdict
from sparkfleet.remote.connection import Connection
from sparkfleet.weights import layout, verdicts
from sparkfleet.weights.inspection import (
    HashedCallback,
    Inspection,
    RequiredSpace,
    ignore_hashed,
    inspect_weights,
)
from sparkfleet.weights.layout import FileLocation
from sparkfleet.weights.manifest import Manifest

PIECE = 1 << 20  # bytes read at once
BEYOND_REPAIR = ("header", "kind")  # right bytes of a broken source; a folder in a file's place


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A file that a host lacks, and how many of its bytes arrived in an earlier run."""

    location: FileLocation
    offset: int = 0

    @property
    def size(self) -> int:
        """The bytes to send."""
        return self.location.file.size - self.offset

    def item(self) -> dict[str, Any]:
        """Return the file as the receiver wants it."""
        return {**self.location.item(), "offset": self.offset}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """A file whose bytes the host has in file `have`; they need a `copy` or a hard link."""

    location: FileLocation
    have: str
    copy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """The needs of one host: files to send, files to adopt, and small texts.

    `verdicts` are problems that staging repairs (warnings) and those that it cannot (errors).
    """

    host: str
    root: str
    sends: tuple[Send, ...] = ()
    adopt: tuple[Adopt, ...] = ()
    texts: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    verdicts: tuple[Verdict, ...] = ()
    cores: int = 1
    space: RequiredSpace = field(default_factory=RequiredSpace)

    @property
    def size(self) -> int:
        """The bytes to send to this host."""
        return sum(send.size for send in self.sends)

    @property
    def copies(self) -> Mapping[str, int]:
        """The bytes to copy on this host, by the blob that they make."""
        return {it.location.blob: it.location.file.size for it in self.adopt if it.copy}

    @property
    def cached(self) -> bool:
        """Whether bytes come from a folder of this host outside its weights folder."""
        return any(adopt.have.startswith("/") for adopt in self.adopt)

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.sends or self.adopt or self.texts)


class Strategy(enum.StrEnum):
    """The ways of staging: the values of `weights_strategy`."""

    FANOUT = "fanout"
    EACH = "each"
    PUSH = "push"
    SHARED = "shared"
    PRESENT = "present"

    @property
    def copies(self) -> bool:
        """Whether anything is written; else what is lacking is an error."""
        return self not in (Strategy.SHARED, Strategy.PRESENT)


def plan_staging(
    manifest: Manifest,
    inspections: Mapping[str, Inspection],
    strategy: Strategy = Strategy.FANOUT,
    *,
    taken: Mapping[str, RequiredSpace] = EMPTY,
) -> Mapping[str, StagePlan]:
    """Return what each host of `inspections` needs to hold `manifest`.

    With a strategy that copies nothing, plans hold verdicts only. What is `taken` on a host is
    needed there for other models.
    """
    if strategy.copies:
        return {
            name: _plan_host_staging(manifest, inspection, taken.get(name, RequiredSpace()))
            for name, inspection in inspections.items()
        }
    return {
        name: StagePlan(
            host=name,
            root=inspection.storage.root,
            verdicts=(
                *verdicts.check_model_files(inspection, manifest),
                *verdicts.check_model_folder(inspection),
            ),
        )
        for name, inspection in inspections.items()
    }


def _plan_host_staging(
    manifest: Manifest, inspection: Inspection, taken: RequiredSpace
) -> StagePlan:
    locations = {location.path: location for location in layout.list_file_locations(manifest)}
    sends: dict[str, Send] = {}
    adopt: list[Adopt] = []
    for finding in (entry for entry in inspection.findings if entry.state not in BEYOND_REPAIR):
        location = locations[finding.path]
        if location.blob in sends:
            adopt.append(Adopt(location=location, have=location.blob))
        elif finding.have:
            adopt.append(Adopt(location=location, have=finding.have, copy=finding.copy))
        else:
            sends[location.blob] = Send(location=location, offset=finding.offset)
    refs = inspection.storage.refs
    texts = layout.build_metadata_files(manifest).items()
    needed = StagePlan(
        host=inspection.host,
        root=inspection.storage.root,
        cores=inspection.storage.cores,
        sends=tuple(sends.values()),
        adopt=tuple(adopt),
        texts={name: text for name, text in texts if refs.get(name) != text},
    )
    if needed.changes:
        needed = replace(needed, space=_sum_required_space(needed, locations.values()))
    return replace(needed, verdicts=tuple(_check_staging(manifest, inspection, needed, taken)))


def _sum_required_space(needed: StagePlan, locations: Iterable[FileLocation]) -> RequiredSpace:
    sizes = (*(send.size for send in needed.sends), *needed.copies.values())
    return RequiredSpace(
        sizes=sizes, links=sum(location.path != location.blob for location in locations)
    )


def _check_staging(
    manifest: Manifest, inspection: Inspection, needed: StagePlan, taken: RequiredSpace
) -> Iterator[Verdict]:
    for verdict in verdicts.check_model_files(inspection, manifest):
        state = verdict.check.removeprefix("weights.")
        if state in BEYOND_REPAIR:
            yield verdict
        elif state != "index":  # most likely the shards come now; else `verify` reports it
            news = state in ("missing", "revision")
            yield replace(verdict, severity=Severity.INFO if news else Severity.WARNING)
    if needed.changes:
        yield from verdicts.check_storage(inspection, taken + needed.space)
    yield from verdicts.check_network_folder(inspection)
    yield from verdicts.check_model_folder(inspection)


def build_stream_request(
    sends: Iterable[Send], source: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return one stream of a receiver's request; without a `source` it is the payload."""
    return {"source": source, "files": [send.item() for send in sends]}


def read_payload(folder: Path, sends: Iterable[Send]) -> Iterator[bytes]:
    """Yield the rest of each file from `folder`, one after the other.

    It stops at a file that was removed or has become shorter; the receiver reports that.
    """
    for send in sends:
        left = send.size
        with contextlib.suppress(OSError), (folder / send.location.file.path).open("rb") as file:
            file.seek(send.offset)
            while left and (piece := file.read(min(PIECE, left))):
                yield piece
                left -= len(piece)
        if left:
            return


def verify_weights(
    connection: Connection,
    manifest: Manifest,
    root: str,
    *,
    full: bool = False,
    record: bool = True,
    on_hashed: HashedCallback = ignore_hashed,
) -> tuple[Verdict, ...]:
    """Return the verdicts on the files of a host; the last is ok if all are complete."""
    inspection = inspect_weights(
        connection, manifest, root, full=full, record=record, on_hashed=on_hashed
    )
    results = (
        *verdicts.check_model_files(inspection, manifest),
        *verdicts.check_model_folder(inspection),
    )
    if any(verdict.refuses for verdict in results):
        return results
    return (*results, verdicts.make_complete_verdict(inspection, manifest))

"""Bring a model to hosts: what each lacks (`plan`, pure), the way there, and the proof."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sparkfleet.model import EMPTY, Severity, Verdict
from sparkfleet.remote.link import Link
from sparkfleet.weights import layout, verdicts
from sparkfleet.weights.conversation import Conversation
from sparkfleet.weights.inspection import Hashed, Inspection, Room, inspect, untold
from sparkfleet.weights.layout import Place
from sparkfleet.weights.manifest import Manifest

PIECE = 1 << 20  # bytes read at once
PLACE_TIMEOUT = 3600.0  # s; bytes that cannot be linked are copied
BEYOND_REPAIR = ("header", "kind")  # right bytes of a broken source; a folder in a file's place


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A file that a host lacks, and how many of its bytes arrived in an earlier run."""

    place: Place
    offset: int = 0

    @property
    def size(self) -> int:
        """The bytes to send."""
        return self.place.file.size - self.offset

    def item(self) -> dict[str, Any]:
        """Return the file as the receiver wants it."""
        return {**self.place.item(), "offset": self.offset}


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """What one host needs: files to send, files to adopt (place, file with its bytes), and texts.

    `verdicts` tell what is wrong now and gets repaired (warnings), and what cannot (errors).
    """

    host: str
    root: str
    sends: tuple[Send, ...] = ()
    adopt: tuple[tuple[Place, str], ...] = ()
    texts: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    verdicts: tuple[Verdict, ...] = ()
    cores: int = 1
    room: Room = field(default_factory=Room)

    @property
    def size(self) -> int:
        """The bytes to send to this host."""
        return sum(send.size for send in self.sends)

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.sends or self.adopt or self.texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """What a host took in: bytes, files, and the files whose hash was wrong on arrival."""

    host: str
    bytes: int = 0
    files: int = 0
    wrong: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arriving:
    """How far a host is: `done` of `size` bytes arrived, and `proven` of its `files` are right."""

    host: str
    done: int
    size: int
    proven: int
    files: int


Moved = Callable[[Arriving], None]
"""Takes how far a host is, again and again."""


def silent(_: Arriving) -> None:
    """Say nothing about progress."""


class Strategy(enum.StrEnum):
    """How a model comes to the hosts: the values of `weights_strategy`."""

    FANOUT = "fanout"
    EACH = "each"
    PUSH = "push"
    SHARED = "shared"
    PRESENT = "present"

    @property
    def copies(self) -> bool:
        """Whether anything is written; else what is lacking is an error."""
        return self not in (Strategy.SHARED, Strategy.PRESENT)


def plan(
    manifest: Manifest,
    inspections: Mapping[str, Inspection],
    strategy: Strategy = Strategy.FANOUT,
    *,
    taken: Mapping[str, Room] = EMPTY,
) -> Mapping[str, StagePlan]:
    """Return what each host of `inspections` needs to hold `manifest`.

    With a strategy that copies nothing, plans hold verdicts only. What is `taken` on a host is
    needed there for other models.
    """
    if strategy.copies:
        return {
            name: _plan(manifest, inspection, taken.get(name, Room()))
            for name, inspection in inspections.items()
        }
    return {
        name: StagePlan(
            host=name,
            root=inspection.storage.root,
            verdicts=(
                *verdicts.on_files(inspection, manifest),
                *verdicts.on_folder(inspection),
            ),
        )
        for name, inspection in inspections.items()
    }


def _plan(manifest: Manifest, inspection: Inspection, taken: Room) -> StagePlan:
    places = {place.path: place for place in layout.places(manifest)}
    sends: dict[str, Send] = {}
    adopt: list[tuple[Place, str]] = []
    for finding in (found for found in inspection.findings if found.state not in BEYOND_REPAIR):
        place = places[finding.path]
        have = place.blob if place.blob in sends else finding.have
        if have is None:
            sends[place.blob] = Send(place=place, offset=finding.offset)
        else:
            adopt.append((place, have))
    refs, texts = inspection.storage.refs, layout.texts(manifest).items()
    needed = StagePlan(
        host=inspection.host,
        root=inspection.storage.root,
        cores=inspection.storage.cores,
        sends=tuple(sends.values()),
        adopt=tuple(adopt),
        texts={name: text for name, text in texts if refs.get(name) != text},
    )
    if needed.changes:
        links = sum(place.path != place.blob for place in places.values())
        room = Room(sizes=tuple(send.size for send in needed.sends), links=links)
        needed = replace(needed, room=room)
    return replace(needed, verdicts=tuple(_verdicts(manifest, inspection, needed, taken)))


def _verdicts(
    manifest: Manifest, inspection: Inspection, needed: StagePlan, taken: Room
) -> Iterator[Verdict]:
    for verdict in verdicts.on_files(inspection, manifest):
        state = verdict.check.removeprefix("weights.")
        if state in BEYOND_REPAIR:
            yield verdict
        elif state != "index":  # most likely the shards come now; else `verify` will tell
            news = state in ("missing", "revision")
            yield replace(verdict, severity=Severity.INFO if news else Severity.WARNING)
    if needed.changes:
        yield from verdicts.on_storage(inspection, taken + needed.room)
    yield from verdicts.on_folder(inspection)


def stream(sends: Iterable[Send], source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return one stream of a receiver's request; without a `source` it is the payload."""
    return {"source": source, "files": [send.item() for send in sends]}


def payload(folder: Path, sends: Iterable[Send]) -> Iterator[bytes]:
    """Yield the rest of each file from `folder`, one after the other.

    It ends at a file that is gone or has become shorter: the receiver sees that, and says so.
    """
    for send in sends:
        left = send.size
        with contextlib.suppress(OSError), (folder / send.place.file.path).open("rb") as file:
            file.seek(send.offset)
            while left and (piece := file.read(min(PIECE, left))):
                yield piece
                left -= len(piece)
        if left:
            return


def landed(receiver: Conversation, plan: StagePlan, moved: Moved) -> Landed:
    """Listen to a receiver to its end; raises CommandError if it could not take everything."""

    def told(done: int, proven: int) -> None:
        files = len(plan.sends)
        moved(Arriving(host=plan.host, done=done, size=plan.size, proven=proven, files=files))

    answer = receiver.answer(lambda progress: told(progress["bytes"], progress["landed"]))
    told(answer["bytes"], len(answer["landed"]))
    return Landed(
        host=plan.host, bytes=answer["bytes"], files=len(answer["landed"]), wrong=answer["wrong"]
    )


def place(link: Link, plan: StagePlan, arrived: Landed) -> None:
    """Give the bytes that are on the host now the names under which the engine reads them."""
    right = [send.place for send in plan.sends if send.place.blob not in arrived.wrong]
    links = [(it, it.blob) for it in right if it.path != it.blob]
    items = [{**it.item(), "have": have} for it, have in (*links, *plan.adopt)]
    texts = {} if arrived.wrong else dict(plan.texts)
    if items or texts:
        request = {"root": plan.root, "do": "place", "items": items, "texts": texts}
        link.ask("shelf", request, timeout=PLACE_TIMEOUT)


def verify(
    link: Link,
    manifest: Manifest,
    root: str,
    *,
    full: bool = False,
    record: bool = True,
    hashed: Hashed = untold,
) -> tuple[Verdict, ...]:
    """Return the verdicts on what the host of `link` holds; the last is ok if all is complete."""
    inspection = inspect(link, manifest, root, full=full, record=record, hashed=hashed)
    found = (*verdicts.on_files(inspection, manifest), *verdicts.on_folder(inspection))
    if any(verdict.refuses for verdict in found):
        return found
    return (*found, verdicts.complete(inspection, manifest))

"""What comes to a host: how far it is, what landed, and the names that it gets there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sparkfleet.model import EMPTY
from sparkfleet.remote.link import Link
from sparkfleet.weights.conversation import Conversation
from sparkfleet.weights.stage import StagePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """What a host took in: bytes, files, and the files whose hash was wrong on arrival."""

    host: str
    bytes: int = 0
    files: int = 0
    wrong: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arriving:
    """How far a host is: `done` of `size` bytes arrived, and `proven` of its `files` are right.

    What it copies from a folder of its own is counted with what is sent to it.
    """

    host: str
    done: int
    size: int
    proven: int
    files: int


Moved = Callable[[Arriving], None]
"""Takes how far a host is, again and again."""


def silent(_: Arriving) -> None:
    """Say nothing about progress."""


def landed(receiver: Conversation, plan: StagePlan, moved: Moved) -> Landed:
    """Listen to a receiver to its end; raises CommandError if it could not take everything."""
    copies = sum(plan.copies.values())

    def told(done: int, proven: int) -> None:
        files, size = len(plan.sends), plan.size + copies
        moved(Arriving(host=plan.host, done=done, size=size, proven=proven, files=files))

    answer = receiver.answer(lambda progress: told(progress["bytes"], progress["landed"]))
    told(answer["bytes"], len(answer["landed"]))
    return Landed(
        host=plan.host, bytes=answer["bytes"], files=len(answer["landed"]), wrong=answer["wrong"]
    )


def place(link: Link, plan: StagePlan, arrived: Landed, moved: Moved = silent) -> None:
    """Give the bytes that are on the host now the names under which the engine reads them."""
    copies = sum(plan.copies.values())

    def copied(progress: Mapping[str, int]) -> None:
        done, files = arrived.bytes + progress["copied"], arrived.files
        size = plan.size + copies
        moved(Arriving(host=plan.host, done=done, size=size, proven=files, files=files))

    right = [send.place for send in plan.sends if send.place.blob not in arrived.wrong]
    links = [(it, it.blob) for it in right if it.path != it.blob]
    adopted = [(it.place, it.have) for it in plan.adopt]
    items = [{**it.item(), "have": have} for it, have in (*links, *adopted)]
    texts = {} if arrived.wrong else dict(plan.texts)
    if items or texts:
        request = {"root": plan.root, "items": items, "texts": texts}
        with Conversation(link, "place", request, little=True) as placing:
            placing.answer(copied)
        if copies:
            copied({"copied": copies})

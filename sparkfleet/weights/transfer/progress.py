"""The receiving side of a host: progress, results, and putting files in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sparkfleet.model import EMPTY
from sparkfleet.remote.connection import Connection
from sparkfleet.values import convert_integer, convert_list, convert_mapping, convert_string
from sparkfleet.weights.transfer.session import ProgramSession
from sparkfleet.weights.transfer.stage import StagePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveResult:
    """The result on a host: bytes, files, and the files whose hash was wrong on arrival."""

    host: str
    bytes: int = 0
    files: int = 0
    wrong: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferProgress:
    """How far a host is: `done` of `size` bytes arrived, and `proven` of its `files` are right.

    What it copies from a folder of its own is counted with what is sent to it.
    """

    host: str
    done: int
    size: int
    proven: int
    files: int


TransferCallback = Callable[[TransferProgress], None]
"""Called repeatedly with the progress of a host."""


def ignore_transfer(_: TransferProgress) -> None:
    """Ignore the progress of a transfer."""


def wait_for_receiver(
    receiver: ProgramSession, plan: StagePlan, on_progress: TransferCallback
) -> ReceiveResult:
    """Listen to a receiver to its end; raises CommandError if it could not take everything."""
    copies = sum(plan.copies.values())

    def report_progress(done: int, proven: int) -> None:
        files = len(plan.sends)
        size = plan.size + copies
        on_progress(
            TransferProgress(host=plan.host, done=done, size=size, proven=proven, files=files)
        )

    result = receiver.query(
        partial(_parse_result, plan.host),
        lambda progress: report_progress(progress.get("bytes", 0), progress.get("landed", 0)),
    )
    report_progress(result.bytes, result.files)
    return result


def _parse_result(host: str, answer: Mapping[str, Any]) -> ReceiveResult:
    wrong = convert_mapping(answer["wrong"])
    return ReceiveResult(
        host=host,
        bytes=convert_integer(answer["bytes"], minimum=0, strict=True),
        files=len(convert_list(answer["landed"])),
        wrong={blob: convert_string(digest) for blob, digest in wrong.items()},
    )


def place_files(
    connection: Connection,
    plan: StagePlan,
    arrived: ReceiveResult,
    on_progress: TransferCallback = ignore_transfer,
) -> None:
    """Give the bytes that are on the host now the names under which the engine reads them."""
    copies = sum(plan.copies.values())

    def report_copied(progress: Mapping[str, int]) -> None:
        done = arrived.bytes + progress.get("copied", 0)
        files = arrived.files
        size = plan.size + copies
        on_progress(
            TransferProgress(host=plan.host, done=done, size=size, proven=files, files=files)
        )

    right = [send.location for send in plan.sends if send.location.blob not in arrived.wrong]
    links = [(it, it.blob) for it in right if it.path != it.blob]
    adopted = [(it.location, it.have) for it in plan.adopt]
    items = [{**it.item(), "have": have} for it, have in (*links, *adopted)]
    texts = {} if arrived.wrong else dict(plan.texts)
    if items or texts:
        request = {"root": plan.root, "items": items, "texts": texts}
        with ProgramSession(connection, "weights/place", request, little=True) as placing:
            placing.answer(report_copied)
        if copies:
            report_copied({"copied": copies})

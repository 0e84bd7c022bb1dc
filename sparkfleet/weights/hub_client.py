"""Requests to the Hub, with the limits of time and size that its client lacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import huggingface_hub

T = TypeVar("T")
ANSWER_LIMIT = 60.0  # seconds for the whole answer to one question
MAX_ANSWER = 32 << 20  # bytes of an answer; a listing has some hundred for each file
PLAIN = ("", "identity")
THREAD = "question to the Hub"


class HubAnswerError(Exception):
    """The answer takes too long, or is too long; the message is the end of a sentence about it."""


def ask_in_time(question: Callable[[], T]) -> T:
    """Return the answer to `question`; raises HubAnswerError, and what the client raises.

    A server can send a byte now and then, which no limit of the client notices.
    """
    _limit_session()
    answers: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(question())
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = threading.Thread(target=work, name=THREAD, daemon=True)
    thread.start()
    thread.join(ANSWER_LIMIT)
    if errors:
        raise errors[0]
    if not answers:
        raise HubAnswerError(f"did not answer in full within {ANSWER_LIMIT:.0f} s")
    return answers[0]


def _limit_session() -> None:
    """Have the client's session accept plain answers only, whose length is known as they come."""
    session = huggingface_hub.get_session()
    hooks = session.event_hooks
    if _limit_answer not in hooks.get("response", ()):
        session.headers["Accept-Encoding"] = "identity"
        session.event_hooks = {**hooks, "response": [*hooks.get("response", ()), _limit_answer]}


def _limit_answer(response: Any) -> None:
    """Bound the length of `response`; raise HubAnswerError for an unrequested encoding."""
    encoding = response.headers.get("Content-Encoding", "")
    if encoding.lower() not in PLAIN:
        raise HubAnswerError(f"answered in an encoding that was not requested: {encoding[:20]!r}")
    stream = response.stream
    kind: type[Any] = type(stream)

    class BoundedStream(kind):  # type: ignore[misc] # the client looks at its type
        def __init__(self) -> None:
            self.count = 0

        def __iter__(self) -> Iterator[bytes]:
            for piece in stream:
                self.count += len(piece)
                if self.count > MAX_ANSWER:
                    raise HubAnswerError(f"sent more than {MAX_ANSWER >> 20} MiB")
                yield piece

        def close(self) -> None:
            stream.close()

    response.stream = BoundedStream()

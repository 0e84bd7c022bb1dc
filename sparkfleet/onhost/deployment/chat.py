"""Send chat requests to the endpoint on this host, all at once, as clients would.

Request: ``url`` (http://address:port), ``bodies`` (each one request; none: only list the models),
``timeout`` (s for the last byte of an answer), ``silence`` (s), and ``environment``, the file of
this host that the server read: the key is there, if it wants one. ``copies``, if given, names for
each body the copy of the model that must answer, by vLLM's data-parallel rank. When the input ends
before the answer, the client no longer waits: this program exits, and the server drops the
requests. It gives up, too, when ``/health`` has not answered for ``silence`` s: a frozen server
answers nothing more.

Answer: ``models`` that are served, and ``replies``, one a body: ``status`` of HTTP, ``content``
(JSON, or the text of an error page), ``events`` of a stream (``at`` seconds after the request was
sent, ``data`` as text) and ``began`` and ``seconds``, on a clock that all replies share.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import sys
import threading
import time
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.vitals import (
    BROKE_OFF,
    MAX_ANSWER,
    TOO_LONG,
    AnswerBudget,
    TooLongError,
    ask_endpoint,
    explain_no_answer,
    open_answer,
)

SHOWN = 500  # characters of an error page
HEALTH_PATIENCE = 5.0  # seconds for one answer of /health
TICK = 1.0  # seconds between two
MODELS_PATIENCE = 30.0  # seconds for the list of models
MAX_ANSWERS = 256 << 20  # bytes of all answers to one call of this program
MAX_LINE = 8 << 20  # bytes of an event
EVENT_COST = 200  # bytes that an event takes without its text
COPY_HEADER = "X-data-parallel-rank"  # entrypoints/openai/engine/serving.py of vLLM 0.18
DATA = b"data: "  # a line of a stream


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=end_with_input, daemon=True).start()
    threading.Thread(
        target=end_with_server, args=(request["url"], request["silence"]), daemon=True
    ).start()
    request["key"] = read_api_key(Path(request["environment"]))
    request["budget"] = AnswerBudget(MAX_ANSWERS)
    patience = min(request["timeout"], MODELS_PATIENCE)
    listed = send_chat_request({**request, "timeout": patience}, "/v1/models", None)
    if listed["status"] != 200:
        why = listed["content"] or "nothing"
        where = f"{request['url']}/v1/models"
        outcome = (
            f"answered {listed['status']}: {why}" if listed["status"] else f"gave no answer: {why}"
        )
        print(json.dumps({"error": f"{where} {outcome}"}))
        return
    try:
        models = [str(model["id"]) for model in listed["content"]["data"]]
    except (LookupError, TypeError):
        print(json.dumps({"error": f"{request['url']}/v1/models returned no list of models"}))
        return
    print(json.dumps({"models": models, "replies": send_all(request)}))


def end_with_input() -> None:
    """Exit when standard input ends."""
    while os.read(0, 4096):
        pass
    os._exit(1)


def end_with_server(url: str, silence: float) -> None:
    """Exit with an error when the server has been silent for `silence` s."""
    answered = time.monotonic()
    while time.monotonic() - answered < silence:
        time.sleep(TICK)
        if ask_endpoint(url, "/health", patience=HEALTH_PATIENCE).status:  # which one, no matter
            answered = time.monotonic()
    text = f"{url}/health has not answered for {silence:.0f} s; the request was abandoned"
    os.write(1, (json.dumps({"error": text}) + "\n").encode())
    os._exit(0)


def read_api_key(path: Path) -> str:
    """Return the key that the endpoint was started with, "" if it is open."""
    tokens = shlex.split(path.read_text(), comments=True) if path.exists() else []
    keys = [token.partition("=")[2] for token in tokens if token.startswith("VLLM_API_KEY=")]
    return keys[-1] if keys else ""


def send_all(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Send every body at the same time, and return the replies in their order."""
    replies: list[dict[str, Any]] = [{} for _ in request["bodies"]]

    copies = request.get("copies") or [None] * len(replies)

    def send_body(at: int) -> None:
        asked = {**request, "copy": copies[at]}
        replies[at] = send_chat_request(asked, "/v1/chat/completions", request["bodies"][at])

    threads = [threading.Thread(target=send_body, args=(at,)) for at in range(len(replies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies


def send_chat_request(
    request: dict[str, Any], path: str, body: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the reply to one request; its status is 0 where none came."""
    headers = {"Content-Type": "application/json"}
    if request["key"]:
        headers["Authorization"] = f"Bearer {request['key']}"
    if request.get("copy") is not None:
        headers[COPY_HEADER] = str(request["copy"])
    began = time.monotonic()
    result: dict[str, Any] = {"status": 0, "content": None, "events": [], "began": began}
    try:
        with open_answer(
            request["url"] + path,
            patience=request["timeout"],
            budget=request["budget"],
            headers=headers,
            body=None if body is None else json.dumps(body).encode(),
        ) as reply:
            if body and body.get("stream") and reply.status == http.HTTPStatus.OK:
                seen: dict[str, Any] = {"events": read_events(reply, began, request["budget"])}
            else:
                seen = {"content": read_content(reply)}
        if isinstance(seen.get("content"), bytes):
            seen["content"] = json.loads(seen["content"])
        result.update(seen, status=reply.status)
    except TimeoutError:
        result["content"] = f"no complete answer within {request['timeout']:.0f} s"
    except (OSError, http.client.HTTPException) as error:
        result["content"] = explain_no_answer(error)
    except (ValueError, RecursionError) as error:
        result["content"] = f"its answer is not JSON: {str(error)[:SHOWN]}"
    return {**result, "seconds": time.monotonic() - began}


def read_content(reply: http.client.HTTPResponse) -> bytes | str:
    """Return the content of a good answer, else the text of an error page."""
    if reply.status != http.HTTPStatus.OK:
        return read_error_page(reply)
    data = reply.read(MAX_ANSWER + 1)
    if len(data) > MAX_ANSWER:
        raise TooLongError(TOO_LONG)
    if reply.length:
        raise http.client.IncompleteRead(data)
    return data


def read_error_page(reply: http.client.HTTPResponse) -> str:
    """Return where a redirect leads, or the text of an error page, as much of it as came."""
    if led := reply.headers.get("Location"):
        return f"a redirect to {led[:SHOWN]}, which is not followed"
    try:
        return reply.read(SHOWN).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return BROKE_OFF


def read_events(
    reply: http.client.HTTPResponse, began: float, budget: AnswerBudget
) -> list[dict[str, Any]]:
    """Return the events of a stream, each with the seconds after which it came."""
    events = []
    while line := reply.readline(MAX_LINE):
        if not line.endswith(b"\n"):
            raise TooLongError(TOO_LONG) if len(line) == MAX_LINE else OSError(BROKE_OFF)
        if line.startswith(DATA):
            budget.spend(EVENT_COST)
            text = line[len(DATA) :].decode(errors="replace").strip()
            events.append({"at": time.monotonic() - began, "data": text})
    return events


if __name__ == "__main__":
    main()

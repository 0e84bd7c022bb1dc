"""Ask the endpoint on this host one chat question, as a client would.

Request: ``url`` (http://address:port), ``model``, ``ask`` (null: only tell the models),
``max_tokens``, ``timeout`` in seconds, and ``environment``, the file of this host that the server
read: the key is there, if it wants one. Answer: ``answer``, ``models`` that it has, ``seconds``.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

SHOWN = 500  # characters of an error page


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    request["key"] = key(Path(request["environment"]))
    began = time.monotonic()
    try:
        answer = {**chat(request), "seconds": time.monotonic() - began}
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")[:SHOWN]
        answer = {"error": f"{error.url} answered {error.code}: {text}"}
    except OSError as error:
        answer = {"error": f"no answer from {request['url']}: {error}"}
    print(json.dumps(answer))


def key(path: Path) -> str:
    """Return the key that the endpoint was started with, "" if it is open."""
    words = shlex.split(path.read_text(), comments=True) if path.exists() else []
    found = [word.partition("=")[2] for word in words if word.startswith("VLLM_API_KEY=")]
    return found[-1] if found else ""


def chat(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer and the names of the models that are served."""
    found = call(request, "/v1/models", None)
    models = [model["id"] for model in found["data"]]
    if request["ask"] is None:
        return {"answer": "", "models": models}
    question = {
        "model": request["model"],
        "messages": [{"role": "user", "content": request["ask"]}],
        "max_tokens": request["max_tokens"],
        "temperature": 0,
    }
    message = call(request, "/v1/chat/completions", question)["choices"][0]["message"]
    return {
        "answer": message.get("content") or message.get("reasoning_content") or "",
        "models": models,
    }


def call(request: dict[str, Any], path: str, body: dict[str, Any] | None) -> Any:
    """Return the JSON that the endpoint answers."""
    headers = {"Content-Type": "application/json"}
    if request["key"]:
        headers["Authorization"] = f"Bearer {request['key']}"
    data = None if body is None else json.dumps(body).encode()
    question = urllib.request.Request(request["url"] + path, data=data, headers=headers)
    with urllib.request.urlopen(question, timeout=request["timeout"]) as reply:
        return json.load(reply)


main()

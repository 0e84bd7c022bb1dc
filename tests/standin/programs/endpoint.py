"""The OpenAI endpoint, as far as sparkfleet uses it."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import answers, behaviour


class Endpoint(ThreadingHTTPServer):
    """Serves on a socket that is bound already. `healthy` and `died` may change while it does."""

    daemon_threads = True

    def __init__(
        self, bound: socket.socket, name: str, options: dict[str, str], wrong: dict[str, Any]
    ) -> None:
        socketserver.TCPServer.__init__(self, bound.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        bound.listen(64)
        self.names = name.split()
        self.name = self.names[0]
        self.options = options
        self.wrong = wrong
        self.healthy = not wrong.get("unhealthy")
        self.broken = False
        self.copies = 1
        self.lost: int | None = None  # the copy that died: its requests are never answered
        self.asked = [0]  # requests of each copy
        self.questions = self.tokens = 0

    def choose_copy(self, wanted: str | None) -> int:
        """Return the copy that gets a request: the one asked for, else the least used."""
        self.asked += [0] * (self.copies - len(self.asked))
        counts = self.asked[: self.copies]
        chosen = int(wanted) if wanted is not None else counts.index(min(counts))
        self.asked[chosen] += 1
        return chosen


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Endpoint
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer the questions that change nothing."""
        own = self.server
        match self.path:
            case "/health":
                self._reply(200 if own.healthy else 503, "")
            case "/metrics":
                self._reply(200, _metrics(own))
            case "/v1/models" if self._allowed():
                models = [{"id": name, "object": "model", "owned_by": "vllm"} for name in own.names]
                self._reply(200, {"object": "list", "data": models})
            case _:
                self._reply(401 if self.path.startswith("/v1") else 404, {"error": "no"})

    def do_POST(self) -> None:
        """Answer a chat."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions" or not self._allowed():
            self._reply(404 if self._allowed() else 401, {"error": "no"})
        elif body["model"] not in self.server.names:
            text = f"The model `{body['model']}` does not exist."
            self._reply(404, {"error": {"message": text, "type": "NotFoundError", "code": 404}})
        elif self.server.broken:
            self.server.healthy = False
            self._reply(500, {"error": {"message": "EngineCore encountered an issue."}})
        elif refusal := answers.refusal(body, self.server.options):
            error = {"message": refusal, "type": "BadRequestError", "param": None, "code": 400}
            self._reply(400, {"error": error})
        else:
            self._chat(body)

    def _chat(self, body: dict[str, Any]) -> None:
        own = self.server
        if own.choose_copy(self.headers.get("X-data-parallel-rank")) == own.lost:
            time.sleep(100_000)
        message = answers.message(body, own.options, own.wrong)
        tokens = body["max_tokens"] if body.get("ignore_eos") else answers.TOKENS
        own.questions += 1
        own.tokens += tokens
        if body.get("stream"):
            speed = own.wrong.get("speed", 0.0)
            self._stream(answers.chunks(message, tokens, body, speed=speed))
        else:
            self._reply(200, answers.whole(message, tokens, body))

    def _stream(self, chunks: Iterator[dict[str, Any]]) -> None:
        """Send events as they come, which the end of the connection ends."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _allowed(self) -> bool:
        key = os.environ.get("VLLM_API_KEY")
        return not key or self.headers.get("Authorization") == f"Bearer {key}"

    def _reply(self, status: int, content: Any) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Log as uvicorn does."""
        del format
        line = args[0]
        status = args[1] if len(args) > 1 else ""
        address, port = self.client_address[:2]
        print(f'INFO:     {address}:{port} - "{line}" {int(status) if status else ""}', flush=True)
        behaviour.happen(self.server.wrong, line)


def _metrics(own: Endpoint) -> str:
    label = f'{{engine="0",model_name="{own.name}"}}'
    numbers = {
        "num_requests_running": 0,
        "num_requests_waiting": 0,
        "prompt_tokens_total": 2 * own.tokens,
        "generation_tokens_total": own.tokens,
        "request_success_total": own.questions,
        "prefix_cache_hits_total": 0,
        "num_preemptions_total": 0,
        "kv_cache_usage_perc": 0,
        "time_to_first_token_seconds_sum": 0.25 * own.questions,
        "time_to_first_token_seconds_count": own.questions,
        "inter_token_latency_seconds_sum": 0.02 * own.tokens,
        "inter_token_latency_seconds_count": own.tokens,
    }
    return "".join(f"vllm:{name}{label} {float(count)}\n" for name, count in numbers.items())

"""The OpenAI endpoint, as far as clients of ours use it."""

from __future__ import annotations

import json
import os
import re
import socket
import socketserver
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import behaviour

PRODUCT = re.compile(r"(\d+) ?\* ?(\d+)")


class Endpoint(ThreadingHTTPServer):
    """Serves on a socket that is bound already. `healthy` and `died` may change while it does."""

    daemon_threads = True

    def __init__(self, bound: socket.socket, name: str, wrong: dict[str, Any]) -> None:
        socketserver.TCPServer.__init__(self, bound.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        bound.listen(64)
        self.name, self.wrong, self.answer = name, wrong, wrong.get("answer")
        self.healthy, self.broken = not wrong.get("unhealthy"), False
        self.questions = self.tokens = 0


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
                models = [{"id": own.name, "object": "model", "owned_by": "vllm"}]
                self._reply(200, {"object": "list", "data": models})
            case _:
                self._reply(401 if self.path.startswith("/v1") else 404, {"error": "no"})

    def do_POST(self) -> None:
        """Answer a chat."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions" or not self._allowed():
            self._reply(404 if self._allowed() else 401, {"error": "no"})
        elif body["model"] != self.server.name:
            text = f"The model `{body['model']}` does not exist."
            self._reply(404, {"error": {"message": text, "type": "NotFoundError", "code": 404}})
        elif self.server.broken:
            self.server.healthy = False
            self._reply(500, {"error": {"message": "EngineCore encountered an issue."}})
        else:
            self._reply(200, self._chat(body["messages"][-1]["content"]))

    def _chat(self, question: str) -> dict[str, Any]:
        own = self.server
        own.questions, own.tokens = own.questions + 1, own.tokens + 4
        message = {"role": "assistant", "content": own.answer or _answer(question)}
        return {
            "object": "chat.completion",
            "model": own.name,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12},
        }

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
        line, status = args[0], args[1] if len(args) > 1 else ""
        address, port = self.client_address[:2]
        print(f'INFO:     {address}:{port} - "{line}" {int(status) if status else ""}', flush=True)
        behaviour.happen(self.server.wrong, line)


def _answer(question: str) -> str:
    product = PRODUCT.search(question)
    return str(int(product[1]) * int(product[2])) if product else "I stand in for a model."


def _metrics(own: Endpoint) -> str:
    label = f'{{engine="0",model_name="{own.name}"}}'
    numbers = {
        "num_requests_running": 0,
        "num_requests_waiting": 0,
        "prompt_tokens_total": 2 * own.tokens,
        "generation_tokens_total": own.tokens,
        "request_success_total": own.questions,
    }
    return "".join(f"vllm:{name}{label} {float(count)}\n" for name, count in numbers.items())

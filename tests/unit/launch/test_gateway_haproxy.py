"""The rendered gateway in the real HAProxy, in front of servers on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sparkfleet import inventory
from sparkfleet.inventory.gateway import read_gateway
from sparkfleet.launch.gateway.keys import ApiKey
from sparkfleet.launch.gateway.rendering import render_gateway
from sparkfleet.launch.gateway.routes import ServedCluster, build_routes
from tests.commandline import becomes, within
from tests.ports import reserve_port

HAPROXY = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
KEY = "sk-0123456789abcdef"
CHAT = "/v1/chat/completions"
MAX_BODY = 64 << 10

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="needs haproxy, which ./test installs")


class Server(ThreadingHTTPServer):
    """Answers as a model would; `seen` are the requests. A stream ends once `released` is set."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore what a check of health leaves unread."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, int]] = []
        self.streaming = threading.Event()
        self.released = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.headers.get("Authorization", ""), len(body)))
        if b'"stream"' not in body:
            self._answer({"port": self.server.port})
            return
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"data: 1\n\n")
        self.server.streaming.set()
        self.server.released.wait(60)
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _answer(self, content: dict[str, Any]) -> None:
        text = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass


@dataclass
class Proxy:
    """HAProxy in a folder, with the files of a gateway."""

    folder: Path
    port: int
    keys: tuple[ApiKey, ...] = (ApiKey(name="me", key=KEY),)
    process: subprocess.Popen[bytes] | None = None
    hash: str = ""
    aliases: dict[str, str] = field(default_factory=dict)

    def write(self, *clusters: ServedCluster) -> None:
        about = {"port": self.port, "bind": "127.0.0.1", "max_body": MAX_BODY}
        content = {"hosts": {"spark1": {}}, "vars": {"gateway": {**about, "aliases": self.aliases}}}
        path = self.folder / "hosts.json"
        path.write_text(json.dumps({"sparks": content}))
        gateway = read_gateway(inventory.load_inventory([str(path)]))
        assert gateway is not None
        rendered = render_gateway(gateway, build_routes(gateway, clusters), self.keys, [str(path)])
        for name, text in rendered.files.items():
            (self.folder / name).write_text(text)
        self.hash = rendered.hash

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["bash", str(self.folder / "gateway.sh")], stdout=log, stderr=log
            )
        assert becomes(self.runs_these), self.log()

    def reload(self) -> None:
        """Reload; a signal that the master gets while it starts is lost, so it is sent again."""
        process = self.process
        assert process is not None

        def ask() -> bool:
            process.send_signal(signal.SIGUSR2)
            return within(3.0, self.runs_these)

        assert becomes(ask), self.log()

    def runs_these(self) -> bool:
        return self.hash in self.ask("show env SPARKFLEET_GATEWAY")

    def ask(self, command: str) -> str:
        """Send a command to the socket of the worker; "" where there is none."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            try:
                client.connect(str(self.folder / "haproxy.sock"))
                client.sendall(f"{command}\n".encode())
                return b"".join(iter(lambda: client.recv(65536), b"")).decode()
            except OSError:
                return ""

    def send(self, path: str, body: Any = None, *, key: str = KEY, **headers: str) -> Any:
        """Send a request, and return its status and what it answered."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        given = {"Content-Type": "application/json", **headers}
        if key:
            given["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, given)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)["error"]

    def logs_refusals(self, count: int) -> bool:
        return becomes(lambda: self.log().count(" <NOSRV> status=404 ") == count)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    made = (Server(), Server())
    yield made
    for server in made:
        server.released.set()
        server.stop()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    made = Proxy(folder=tmp_path, port=reserve_port())
    yield made
    made.stop()


def serve(server: Server, cluster: str, name: str, **about: Any) -> ServedCluster:
    return ServedCluster(cluster=cluster, name=name, address="127.0.0.1", port=server.port, **about)


def test_a_request_reaches_the_model_that_it_names_with_the_key_of_its_server(
    proxy: Proxy, servers: tuple[Server, Server]
) -> None:
    large, small = servers
    proxy.aliases = {"gpt": "small"}
    proxy.write(
        serve(large, "desk", "org/large", key="vk-large"),
        serve(small, "rack", "small", names=("gpt",)),
        ServedCluster(cluster="off", name="off"),
    )
    proxy.start()
    assert proxy.send(CHAT, {"model": "org/large"}) == (200, {"port": large.port})
    for name in ("small", "gpt"):
        nested = {"messages": [{"model": "off", "content": '"model": "off"'}], "model": name}
        assert proxy.send(CHAT, nested) == (200, {"port": small.port})
    assert [key for key, _ in large.seen] == ["Bearer vk-large"]
    assert {key for key, _ in small.seen} == {""}
    code, listed = proxy.send("/v1/models")
    assert (code, [each["id"] for each in listed["data"]]) == (200, ["org/large", "small", "gpt"])
    assert {each["object"] for each in listed["data"]} == {"model"}
    assert becomes(lambda: 'user="me" model="gpt" rack status=200' in proxy.log())
    assert KEY not in proxy.log()
    assert "vk-large" not in proxy.log()


def test_refusals_have_the_form_of_openai_and_say_why(
    proxy: Proxy, servers: tuple[Server, Server]
) -> None:
    proxy.write(
        serve(servers[0], "desk", "large"),
        serve(servers[1], "rack", "small"),
        ServedCluster(cluster="off", name="off"),
    )
    proxy.start()
    for wrong in ("", "sk-not-this-one-0", KEY.upper()):
        code, error = proxy.send(CHAT, {"model": "large"}, key=wrong)
        assert (code, error["code"]) == (401, "invalid_api_key")
    assert proxy.send(CHAT, {"model": "large"}, key="", **{"x-api-key": KEY})[0] == 200
    code, error = proxy.send(CHAT, {"model": 'large"<'})
    assert (code, error["code"]) == (404, "model_not_found")
    assert error["message"].endswith(
        'large"< does not exist; models of this gateway: large, small, off'
    )
    code, error = proxy.send(CHAT, {"model": "off"})
    assert (code, error["message"]) == (503, "off is not served: none of its clusters answers")
    assert proxy.send(CHAT, b"{}")[0] == 400
    assert proxy.send(CHAT, b"not json")[0] == 400
    for path in ("/v1/load_lora_adapter", "/sleep", "/metrics"):
        assert proxy.send(path, {"model": "large"})[0] == 404
    assert proxy.send("/v1/responses/1")[0] == 404


ODD_PATHS = (
    "/v1/load%5Flora_adapter",
    "/v1/load_lora_adapter/",
    "/v1/load_lora_adapter;x",
    "/v1/load_lora%5fadapter?x=1",
    "/v1/%2e%2e/sleep",
    "/v1/../sleep",
)


def test_no_spelling_of_a_path_reaches_what_is_not_offered(
    proxy: Proxy, servers: tuple[Server, Server]
) -> None:
    proxy.write(serve(servers[0], "desk", "large"))
    proxy.start()
    for path in ODD_PATHS:
        code, error = proxy.send(path, {"model": "large"})
        assert (code, error["code"]) == (404, "not_found"), path
    assert servers[0].seen == []
    assert proxy.send("/v1/responses/resp_1-a.b", {"model": "large"})[0] == 200


def test_a_body_is_not_waited_for_without_a_key(
    proxy: Proxy, servers: tuple[Server, Server]
) -> None:
    """HAProxy holds bodies whole: those of strangers would fill the memory of the model's host."""
    proxy.write(serve(servers[0], "desk", "large"))
    proxy.start()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {MAX_BODY}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
        client.sendall(head.encode() + b"{")
        assert client.recv(64).startswith(b"HTTP/1.1 401 ")


def test_a_request_is_one_whole_line_of_the_log(
    proxy: Proxy, servers: tuple[Server, Server]
) -> None:
    proxy.write(serve(servers[0], "desk", "large"))
    proxy.start()
    hostile = 'x" status=200 \n\x1b[2J'
    for count, name in enumerate((hostile, hostile + "y" * 30_000), start=1):
        code, error = proxy.send(CHAT, {"model": name})
        assert code == 404
        assert len(error["message"]) < 400
        assert proxy.logs_refusals(count)  # before the next: HAProxy logs from several threads
    lines = [line for line in proxy.log().splitlines() if "<NOSRV>" in line]
    assert all(line.endswith("end=LR") for line in lines)
    assert 'model="x\\" status=200 \\n\\u001b[2J"' in lines[0]


def test_a_body_is_routed_up_to_its_limit_and_above_it_where_the_model_comes_first(
    proxy: Proxy, servers: tuple[Server, Server]
) -> None:
    proxy.write(serve(servers[0], "desk", "large"), serve(servers[1], "rack", "small"))
    proxy.start()
    over = MAX_BODY * 3
    assert proxy.send(CHAT, {"messages": "x" * (MAX_BODY - 100), "model": "large"})[0] == 200
    assert proxy.send(CHAT, {"model": "large", "messages": "x" * over})[0] == 200
    assert servers[0].seen[1][1] > over
    code, error = proxy.send(CHAT, {"messages": "x" * over, "model": "large"})
    assert (code, error["code"]) == (413, "request_too_large")
    assert "put model before messages, or raise max_body" in error["message"]


def test_one_model_is_meant_where_none_is_named(
    proxy: Proxy, servers: tuple[Server, Server]
) -> None:
    proxy.keys = ()
    proxy.write(serve(servers[0], "desk", "large"))
    proxy.start()
    assert proxy.send(CHAT, b"{}", key="sent-by-the-client")[0] == 200
    assert servers[0].seen == [("Bearer sent-by-the-client", 2)]
    assert proxy.send(CHAT, {"model": "other"})[0] == 404


def test_a_stream_outlives_the_reload_that_takes_its_server_away(
    proxy: Proxy, servers: tuple[Server, Server]
) -> None:
    large, small = servers
    proxy.write(serve(large, "desk", "large"), serve(small, "rack", "small"))
    proxy.start()
    ended: list[bytes] = []

    def read() -> None:
        body = json.dumps({"model": "large", "stream": True}).encode()
        headers = {"Authorization": f"Bearer {KEY}"}
        url = f"http://127.0.0.1:{proxy.port}{CHAT}"
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            ended.append(reply.read())

    reader = threading.Thread(target=read)
    reader.start()
    assert large.streaming.wait(60)
    proxy.write(ServedCluster(cluster="desk", name="large"), serve(small, "rack", "small"))
    proxy.reload()
    assert proxy.send(CHAT, {"model": "large"})[0] == 503
    assert proxy.send(CHAT, {"model": "small"})[0] == 200
    assert ended == []
    large.released.set()
    reader.join(60)
    assert ended == [b"data: 1\n\ndata: [DONE]\n\n"]


def test_a_copy_that_stopped_costs_no_request(proxy: Proxy, servers: tuple[Server, Server]) -> None:
    first, second = servers
    proxy.write(serve(first, "desk", "large"), serve(second, "rack", "large"))
    proxy.start()
    answered = {proxy.send(CHAT, {"model": "large"})[1]["port"] for _ in range(8)}
    assert answered == {first.port, second.port}
    first.stop()
    for _ in range(8):
        assert proxy.send(CHAT, {"model": "large"}) == (200, {"port": second.port})
    second.stop()
    assert proxy.send(CHAT, {"model": "large"})[0] == 503

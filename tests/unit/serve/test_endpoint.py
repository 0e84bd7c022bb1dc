"""Asking an endpoint, which is a server of this machine."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.action import NoArgs
from sparkfleet.actions.deploy.prewarm import Prewarm
from sparkfleet.actions.deploy.wait_ready import check_models
from sparkfleet.actions.run_state import LaunchState, RunState
from sparkfleet.commands import build_script_command
from sparkfleet.errors import CommandError, LaunchError
from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.endpoint.endpoint import Endpoint
from sparkfleet.model import Host
from sparkfleet.remote.local import LocalConnection
from tests.scenes import inventory, scene
from tests.surveys import make_survey

KEY = "s3cret"


class Server(BaseHTTPRequestHandler):
    """Serves one model, to those who have the key."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer({"data": [{"id": "right"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = f"{asked['model']}: {asked['messages'][0]['content']}"
        self._answer({"choices": [{"message": {"content": text}}]})

    def _answer(self, content: dict[str, Any]) -> None:
        allowed = self.headers.get("Authorization") == f"Bearer {KEY}"
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(json.dumps(content if allowed else {}).encode())


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def _launch(folder: Path, port: int, name: str) -> LaunchState:
    (folder / "nccl.env").write_text(f"export VLLM_API_KEY={KEY}\n")
    survey = make_survey(home="/", folder=str(folder))
    deployment = Deployment(
        cluster="c", tp=1, pp=1, served_name=name, port=port, files={}, hash="h"
    )
    return LaunchState(deployment=deployment, engines={}, surveys={"here": survey}, reason="a test")


def test_the_key_is_read_on_the_host(tmp_path: Path, port: int) -> None:
    here = LocalConnection(Host(name="here"))
    open_to_all = Endpoint(listens_on="", port=port, served_name="right", folder=str(tmp_path))
    with pytest.raises(CommandError, match="401"):
        open_to_all.list_models(here)
    _launch(tmp_path, port, "right")
    assert open_to_all.list_models(here) == ["right"]
    assert open_to_all.chat(here, "hi", tokens=8, timeout=60).content == "right: hi"


def test_a_question_without_a_waiting_client_is_dropped(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        where = {
            "url": f"http://127.0.0.1:{server.getsockname()[1]}",
            "bodies": [],
            "timeout": 60,
            "silence": 60,
        }
        command = build_script_command(
            "deployment/chat", {**where, "environment": str(tmp_path / "absent")}
        )
        with subprocess.Popen(command.argv, stdin=subprocess.PIPE) as child:
            assert child.stdin is not None
            child.stdin.write(command.input)
            child.stdin.flush()
            connection, _ = server.accept()
            child.stdin.close()
            with connection:
                connection.settimeout(60)
                while connection.recv(4096):
                    pass
            assert child.wait(60) == 1


def test_an_endpoint_that_serves_another_name_is_not_ready(tmp_path: Path, port: int) -> None:
    with scene(tmp_path, hosts=inventory(("here",))) as made:
        made.provide(RunState(launch=_launch(tmp_path, port, "wrong")))
        link = LocalConnection(made.cluster.head)
        with pytest.raises(LaunchError, match="the endpoint serves right, not wrong"):
            check_models(made, link)
        made.provide(RunState(launch=_launch(tmp_path, port, "right")))
        check_models(made, link)
        step = Prewarm(NoArgs())
        plan = step.plan(made, {"here": None})["here"]
        assert step.apply(made, link, plan).message.startswith("first answer after 0.")

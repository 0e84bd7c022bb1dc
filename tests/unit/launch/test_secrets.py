"""Secrets reach the ranks by one file of mode 0600, and nothing else that anybody sees."""

from __future__ import annotations

import http.server
import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkfleet.commands import Command, build_script_command
from sparkfleet.errors import InventoryError
from sparkfleet.inventory.listing import explain_host_variable
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.inventory.variable_checks import validate_value
from sparkfleet.launch.deployment.secrets import mask_secrets
from sparkfleet.launch.preflight.preflight import check_engine_settings
from sparkfleet.variables import VARIABLES
from tests.engines import deployed, settings

SECRET = "s3cr'et $value"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "key"
    path.write_text(SECRET + "\n")
    return str(path)


def test_a_file_of_this_machine_gives_the_value(file: str) -> None:
    _, files = deployed(hosts=2, vllm_env={"VLLM_API_KEY": {"from_file": file}})
    for own in files.values():
        assert f"export VLLM_API_KEY={shlex.quote(SECRET)}" in own["nccl.env"]
        others = [text for name, text in own.items() if name != "nccl.env"]
        assert not [text for text in others if "s3cr" in text]


def test_a_missing_file_is_reported_before_any_host_is_asked(tmp_path: Path) -> None:
    own = settings(vllm_env={"HF_TOKEN": {"from_file": str(tmp_path / "absent")}})
    missing = r"HF_TOKEN cannot be read from .*absent: No such file"
    with pytest.raises(InventoryError, match=missing):
        check_engine_settings(own)


@pytest.mark.parametrize("value", ["", {"from_file": "/dev/null"}])
def test_an_empty_key_is_refused_for_the_endpoint_would_be_open(value: Any) -> None:
    with pytest.raises(InventoryError, match="VLLM_API_KEY is empty"):
        check_engine_settings(settings(vllm_env={"VLLM_API_KEY": value}))


def test_the_shown_environment_has_all_but_the_secret(file: str) -> None:
    env = {
        "PLAIN": "v",
        "MINE": {"from_file": file},
        "HF_TOKEN": "a\n\nb",
        "ODD": {"from_file": file},
    }
    text = deployed(vllm_env=env)[1]["spark-1"]["nccl.env"]
    shown = mask_secrets(text)
    assert shown is not None
    assert "export PLAIN=v\n" in shown
    assert shown.count("=(secret)\n") == 3
    assert "s3cr" not in shown
    assert "\nb" not in shown
    assert shown.count("export ") == text.count("export ")


@given(value=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1))
def test_no_part_of_a_secret_survives(value: str) -> None:
    marked = f"{value}unmistakable"
    text = deployed(vllm_env={"A_KEY": marked, "B": "2"})[1]["spark-1"]["nccl.env"]
    shown = mask_secrets(text)
    assert shown is not None
    assert "unmistakable" not in shown
    assert "\nexport B=2\n" in shown


def test_a_value_from_this_machines_environment_is_a_secret_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD_ONE", "s3cr3t")
    path = tmp_path / "hosts.yml"
    path.write_text(
        "sparks:\n  hosts: {spark1: {}}\n  vars:\n    vllm_env:\n"
        "      MINE: \"{{ lookup('env', 'ODD_ONE') }}\"\n      PLAIN: a\n"
    )
    lines = "\n".join(explain_host_variable(load_inventory([str(path)]), "spark1", "vllm_env"))
    assert "s3cr3t" not in lines
    assert '"MINE": "(secret)", "PLAIN": "a"' in lines
    assert "lookup('env', 'ODD_ONE')" in lines


def test_an_error_about_an_environment_shows_no_secret() -> None:
    for data in ({"HF_TOKEN": "hf_1", "A": True}, {"HF_TOKEN": ["hf_1"]}):
        text = validate_value(VARIABLES["vllm_env"], data)
        assert text is not None
        assert "hf_1" not in text
    assert validate_value(VARIABLES["vllm_env"], {"A": {"from_file": "x"}}) is None
    assert validate_value(VARIABLES["nccl_env"], {"A": {"from_file": "x"}}) is not None


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Answers requests that carry the key."""

    def _answer(self) -> None:
        right = self.headers["Authorization"] == f"Bearer {SECRET}"
        reply = {"data": [{"id": "m"}], "choices": [{"message": {"content": "204"}}]}
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_response(200 if right else 401)
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    do_GET = do_POST = _answer  # noqa: N815 - the library's names

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_the_smoke_prompt_uses_the_key_from_the_hosts_file(
    port: int, tmp_path: Path, file: str
) -> None:
    env = tmp_path / "nccl.env"
    env.write_text(
        deployed(vllm_env={"VLLM_API_KEY": {"from_file": file}})[1]["spark-1"]["nccl.env"]
    )
    request = {"url": f"http://127.0.0.1:{port}", "bodies": [{"model": "m"}], "timeout": 5,
               "silence": 60, "environment": str(env)}  # fmt: skip
    command = build_script_command("deployment/chat", request, python=(sys.executable,))
    assert SECRET.encode() not in command.stdin
    (reply,) = _said(command)["replies"]
    assert reply["content"]["choices"][0]["message"]["content"] == "204"
    env.write_text("unset VLLM_API_KEY\n")
    assert "answered 401" in _said(command)["error"]


def _said(command: Command) -> Any:
    """Run a program, whose input ends after its answer."""
    with subprocess.Popen(command.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(command.input)
        child.stdin.flush()
        return json.loads(child.stdout.readline())

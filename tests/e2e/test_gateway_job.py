"""Two models of real vLLM behind the gateway, asked by the `openai` client; in order."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.engine import install
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import LONGEST, Done, Type, becomes, processes

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.timeout(2 * LONGEST),
]

KEY = "sk-0123456789abcdef"
PORT = 8070
# The client of the engine's own environment; it prints what it got as JSON.
CLIENT = """
import json, sys
import openai

url, key, model = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0)
asked = {"model": model, "max_tokens": 16, "temperature": 0,
         "messages": [{"role": "user", "content": "12*17"}]}
city = {"type": "object", "required": ["city"], "additionalProperties": False,
        "properties": {"city": {"type": "string", "enum": ["Oslo"]}}}
tool = {"type": "function", "function": {"name": "weather", "parameters": city}}
try:
    chat = client.chat.completions.create(**asked).choices[0].message.content
    parts = client.chat.completions.create(**asked, stream=True)
    stream = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    chosen = {"type": "function", "function": {"name": "weather"}}
    call = client.chat.completions.create(**asked | {"max_tokens": 60}, tools=[tool],
                                          tool_choice=chosen).choices[0].message.tool_calls[0]
    print(json.dumps({"chat": chat, "stream": stream, "tool": call.function.name,
                      "models": [each.id for each in client.models.list()]}))
except openai.APIStatusError as error:
    print(json.dumps({"error": type(error).__name__, "code": error.code,
                      "message": error.body["message"]}))
"""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("keys")
    keys = folder / "keys"
    own = folder / "rack"
    for path, text in ((keys, f"me {KEY}\n"), (own, "vk-of-the-rack\n")):
        path.write_text(text)
        path.chmod(0o600)
    key = {"VLLM_API_KEY": {"from_file": str(own)}}
    tools = {"vllm_args": {"enable-auto-tool-choice": True, "tool-call-parser": "hermes"}}
    large = {"vllm_served_name": "large", **tools}
    small = {"vllm_served_name": "small", "vllm_env": key, **tools}
    clusters = {
        "desk": {"hosts": ["spark-01"], "vars": large},
        "rack": {"hosts": ["spark-02"], "vars": small},
    }
    gateway = {"port": PORT, "api_keys": str(keys), "aliases": {"gpt": "small"}}
    given = f"clusters={json.dumps(clusters)}"
    return "--set", given, "--set", f"gateway={json.dumps(gateway)}"


@pytest.fixture(scope="module")
def ask(lab: LabFleet) -> Callable[..., Any]:
    python = install.install_engine(print) / "bin/python"
    url = f"http://{lab.hosts[0].address}:{PORT}/v1"

    def call(model: str, key: str = KEY) -> Any:
        done = subprocess.run(
            [str(python), "-c", CLIENT, url, key, model],
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call


def test_two_models_and_the_gateway_come_up(run: Type, words: tuple[str, ...]) -> None:
    first: Done = run("cluster.up", "--cluster", "desk", "--solo", *words)  # a busy machine is slow
    assert first.code == 0, first.output
    assert "models large" in first.output
    both = run("cluster.up", "--all", *words)
    assert both.code == 0, both.output
    assert "models large, small, gpt" in both.output


@pytest.mark.parametrize("model", ["large", "small", "gpt"])
def test_chat_stream_tools_and_models_work_through_it(ask: Callable[..., Any], model: str) -> None:
    answer = ask(model)
    assert answer.get("chat") == answer.get("stream") == "204", answer
    assert answer["tool"] == "weather"  # the tiny model knows no arguments
    assert answer["models"] == ["large", "small", "gpt"]


def test_the_client_knows_its_refusals(ask: Callable[..., Any]) -> None:
    wrong = ask("large", "sk-of-somebody-else")
    assert (wrong["error"], wrong["code"]) == ("AuthenticationError", "invalid_api_key")
    unknown = ask("medium")
    assert (unknown["error"], unknown["code"]) == ("NotFoundError", "model_not_found")


def test_a_killed_model_is_named_and_the_other_serves(
    run: Type, ask: Callable[..., Any], words: tuple[str, ...]
) -> None:
    for pid in processes("spark-01"):
        fleet.run_on("spark-01", ["kill", "-9", str(pid)], check=False)
    assert becomes(lambda: ask("large").get("code") == "model_not_served")
    assert ask("small")["chat"] == "204"
    status = run("gateway.status", *words)
    assert "gets no requests" in status.output, status.output


def test_all_of_it_goes_down_with_one_command(run: Type, words: tuple[str, ...]) -> None:
    done = run("cluster.down", "--all", *words)
    assert done.code == 0, done.output
    assert {host: processes(host) for host in ("spark-01", "spark-02")} == {
        "spark-01": {},
        "spark-02": {},
    }

"""`serve.*` against lab hosts that serve from the stand-in engine."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import Done, Event, chat, run_command, type_command
from tests.standin import engine

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
HOSTS = ("spark-01", "spark-02")
ADDRESS = "10.78.0.1"  # of spark-01
FIRST_LOOK = "KV cache 0%"
PARSERS = {
    "enable-auto-tool-choice": True,
    "tool-call-parser": "hermes",
    "reasoning-parser": "qwen3",
}
Run = Callable[..., Done]


@pytest.fixture(scope="module")
def inventory(lab: LabFleet, standin: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(engine.inventory(lab, tmp_path_factory.mktemp("standin")))


@pytest.fixture
def run(inventory: str) -> Run:
    def call(*words: str) -> Done:
        done = run_command(*words, "--inventory", inventory)
        return Done(code=done.returncode, output=done.stdout + done.stderr)

    return call


def up(run: Run, *, parsers: bool = False, **misbehaviour: float) -> None:
    """Serve, with parsers for tools and thoughts, or with one misbehaviour."""
    engine.behave(*HOSTS)
    if misbehaviour:
        engine.misbehave("spark-01", "serve", **misbehaviour)
    words = ["--set", f"vllm_env={{CASE: {'-'.join(misbehaviour) or 'none'}}}"]
    words += ["--set", f"vllm_args={json.dumps(PARSERS)}"] if parsers else []
    done = run("cluster.up", "--tp", "2", *words)
    assert done.code == 0, done.output


def test_nothing_is_served_before_a_start(run: Run) -> None:
    assert run("cluster.down").code == 0  # what another test left
    done = run("serve.smoke")
    assert done.code == 2
    assert "the cluster serves no model" in done.output
    assert "cluster.up" in done.output


def test_what_it_is_not_started_for_is_not_asked(run: Run) -> None:
    up(run)
    done = run("serve.smoke")
    assert done.code == 0, done.output
    assert "ok       answer: '12*17': expected '204', saw '204'" in done.output
    assert "skipped  tool call: it is served without --enable-auto-tool-choice" in done.output
    assert "skipped  reasoning: it is served without --reasoning-parser" in done.output
    assert "is not a multimodal model" in done.output
    assert "6 checks: 3 ok, 3 skipped" in done.output


def test_links_of_a_cluster_that_serves_are_not_changed_unasked(run: Run) -> None:
    up(run)
    assert "nothing was changed" in run("links.apply").output
    done = run("links.apply", "--yes")
    assert done.code == 2
    assert "cluster default runs standin on spark-01, spark-02" in done.output
    assert "--while-serving" in done.output
    assert "192.168" not in fleet.run_on("spark-01", ["ip", "addr"]).stdout


def test_another_recipe_than_the_one_served_is_reported(run: Run) -> None:
    up(run)
    done = run("serve.smoke", "--recipe", "gpt-oss-20b")
    assert done.code == 2
    assert "spark-01 serves recipe recipe, not gpt-oss-20b" in done.output


def test_a_bench_is_held_against_what_was_published(run: Run) -> None:
    up(run)
    done = run("serve.bench", "--rounds", "1", "--requests", "2", "--context", "100")
    assert done.code == 0, done.output
    assert "prompts of 100 tokens, answers of 128" in done.output
    rows = [line.split() for line in done.output.splitlines() if line.count(" tok/s ") == 2]
    assert [row[0] for row in rows] == ["1", "2"]
    assert [row[7] for row in rows] == ["40", "-"]  # published
    assert [row[9] for row in rows] == ["to", "to"]  # expected
    assert "1 request: 100 tokens read, 128 written each" in done.output
    assert "round 1" not in done.output
    assert (
        "published  1 request: decode 40 tok/s (2 nodes; tests/standin, 2026-11-28; "
        "which nobody measured)"
    ) in done.output
    assert "of the published 40" in done.output.splitlines()[-1]
    fit = run("recipes.fit", str(engine.RECIPE), "--staged")
    assert "terms: 2 figures of serve.bench here" in fit.output


def test_an_answer_that_is_too_long_is_refused_in_the_servers_words(run: Run) -> None:
    up(run)
    done = run("serve.bench", "--answer", "300")
    assert done.code == 2
    assert "max_tokens=300 cannot be greater than max_model_len=256" in done.output


def test_a_watch_shows_what_was_done_between_two_looks(run: Run, inventory: str) -> None:
    up(run)
    words = ["serve.watch", "--every", "1s", "--count", "2", "--inventory", inventory]
    request = Event(mark=FIRST_LOOK, deed=lambda _: chat(ADDRESS, "12*17", model="standin"))
    done = type_command(*words, events=[request])
    assert done.code == 0, done.output
    *_, idle, busy = done.output.splitlines()
    assert "0.0 tokens/s generated, 0.0 read, 0 requests running, 0 waiting, KV cache 0%" in idle
    assert "first token after 0.25 s, 20 ms a token; spark-01 " in busy
    assert "; spark-02 " in busy


@pytest.mark.thorough
def test_a_watch_ends_well_by_ctrl_c(run: Run, inventory: str) -> None:
    up(run)
    interrupt = Event(mark=FIRST_LOOK, deed=lambda child: child.send_signal(signal.SIGINT))
    done = type_command("serve.watch", "--inventory", inventory, events=[interrupt])
    assert done.code == 0, done.output


def test_a_watch_goes_on_while_the_endpoint_is_down(run: Run, inventory: str) -> None:
    up(run)
    words = ["serve.watch", "--every", "1s", "--count", "3", "--inventory", inventory]
    kill = ["pkill", "-9", "-f", "bin/vllm serve"]
    loss = Event(mark=FIRST_LOOK, deed=lambda _: fleet.run_on("spark-01", kill, check=False))
    done = type_command(*words, events=[loss])
    assert done.code == 2, done.output
    assert "the endpoint does not answer; spark-01 " in done.output


def test_tools_and_thoughts_are_proven_where_there_are_parsers(run: Run) -> None:
    up(run, parsers=True)
    done = run("serve.smoke", "--output", "json")
    assert done.code == 0, done.output
    found = json.loads(done.output)
    passed = {check["name"]: check["passed"] for check in found["checks"]}
    assert passed == {
        "answer": True,
        "same twice": True,
        "stream": True,
        "tool call": True,
        "tool call, streamed": True,
        "reasoning": True,
        "vision": None,
    }


@pytest.mark.thorough
def test_a_parser_of_another_model_fails(run: Run) -> None:
    up(run, parsers=True, unparsed=True)
    done = run("serve.smoke")
    assert done.code == 2
    assert "FAILED   tool call: " in done.output
    assert "the call in the text, not parsed" in done.output
    assert "FAILED   reasoning: " in done.output
    assert "'<think>' in the answer" in done.output


def test_a_bench_of_less_than_half_of_what_was_published_ends_with_2(run: Run) -> None:
    up(run, speed=5.0)
    words = ["--rounds", "1", "--requests", "1", "--answer", "8", "--output", "json"]
    done = run("serve.bench", *words)
    assert done.code == 2, done.output
    found = json.loads(done.output)
    (pace,) = found["measured"]
    assert 0 < pace["decode"] < 20  # of 40; the stand-in writes 5 a second
    assert found["slow"] is True
    assert found["notes"] == []


@pytest.mark.thorough
def test_an_endpoint_listens_on_the_address_that_is_chosen(run: Run) -> None:
    done = run("cluster.up", "--tp", "2", "--set", "vllm_host=10.9.9.9")
    assert done.code == 2, done.output
    assert re.search("vllm_host.*expected an address of this head: .*10.78.0.1", done.output)
    engine.behave(*HOSTS)
    done = run("cluster.up", "--tp", "2", "--set", f"vllm_host={ADDRESS}", "--yes")
    assert done.code == 0, done.output
    assert f"listens on {ADDRESS}:8000, without an API key" in done.output
    assert "every interface of each host; since 2.52 it asks for" in done.output
    listeners = fleet.run_on("spark-01", ["ss", "-Htln", "sport", "=", ":8000"]).stdout
    assert listeners.split()[3] == f"{ADDRESS}:8000"
    assert run("serve.smoke").code == 0
    assert f"endpoint http://{ADDRESS}:8000/v1" in run("cluster.status").output
    checked = run("hosts.check")
    assert "endpoint: expected an API key, or one address (vllm_host)" in checked.output

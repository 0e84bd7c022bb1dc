"""Two copies of the model behind one address, joined by vLLM itself, with real vLLM; in order."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import LONGEST, Type, becomes, chat, processes

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.timeout(2 * LONGEST),
]

UP = ("cluster.up", "--dp", "2", "--executor", "mp")
STREAMS = 16
TOKENS = 150
SILENCE = 60.0  # seconds after which a stream counts as lost


def stream(url: str, asked: str, seen: Callable[[], None] = lambda: None) -> bool:
    """Read a stream of `TOKENS` tokens; return whether it came to its end."""
    body = {
        "model": "tiny-spark",
        "messages": [{"role": "user", "content": asked}],
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "stream": True,
    }
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=SILENCE) as reply:
            for line in reply:
                seen()
                if line.startswith(b"data: [DONE]"):
                    return True
    except OSError:
        return False
    return False


def run_streams(url: str, seen: Callable[[], None] = lambda: None) -> list[bool]:
    """Read `STREAMS` streams at the same time; return which came to their ends."""
    ended = [False] * STREAMS

    def read(at: int) -> None:
        ended[at] = stream(url, f"{at}*17", seen)

    threads = [threading.Thread(target=read, args=(at,)) for at in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def count_tokens(url: str) -> Counter[str]:
    """Return how many tokens each copy has generated."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=LONGEST) as reply:
        text = reply.read().decode()
    counter = r'^vllm:generation_tokens_total\{engine="(\d+)".*\} (\S+)$'
    found = re.findall(counter, text, re.MULTILINE)
    return Counter({engine: int(float(count)) for engine, count in found})


@pytest.fixture(scope="module")
def url(lab: LabFleet) -> str:
    return f"http://{lab.hosts[0].address}:8000"


def test_each_copy_answers_and_both_share_the_load(run: Type, url: str, lab: LabFleet) -> None:
    done = run(*UP)
    assert done.code == 0, done.output
    assert "copy 0: 12*17 -> 204; copy 1: 12*17 -> 204" in done.output
    before = count_tokens(url)
    assert all(run_streams(url))
    made: dict[str, Any] = count_tokens(url) - before
    assert sum(made.values()) == STREAMS * TOKENS
    assert 0.8 < made["0"] / made["1"] < 1.25, made
    status = run("cluster.status")
    assert "serving: 2 copies, 2 ranks" in status.output, status.output
    assert chat(lab.hosts[0].address, "12*17") == "204"


def test_a_copy_that_is_killed_loses_only_its_own_requests(run: Type, url: str) -> None:
    pids = [pid for pid, title in processes("spark-02").items() if "EngineCore" in title]
    assert pids
    killed = threading.Event()
    counted = threading.Semaphore(0)

    def kill() -> None:
        for _ in range(2 * STREAMS):  # all streams have begun, and none has ended
            counted.acquire()
        fleet.run_on("spark-02", ["kill", "-9", *map(str, pids)])
        killed.set()

    killer = threading.Thread(target=kill)
    killer.start()
    ended = run_streams(url, counted.release)
    killer.join()
    assert killed.is_set()
    # each copy had half of them; those that the killed one had not ended yet are lost
    assert STREAMS // 2 <= ended.count(True) < STREAMS, ended
    assert becomes(lambda: not set(pids) & set(processes("spark-02")))
    status = run("cluster.status")
    assert "rank lost: rank 1 (copy 1) on spark-02 is lost" in status.output, status.output
    assert stream(url, "12*17")  # the other copy still answers


def test_the_next_start_starts_both_copies_again(run: Type) -> None:
    done = run(*UP)
    assert done.code == 0, done.output
    assert "copy 1: 12*17 -> 204" in done.output
    assert run("cluster.down").code == 0
    assert {host: processes(host) for host in ("spark-01", "spark-02")} == {
        "spark-01": {},
        "spark-02": {},
    }

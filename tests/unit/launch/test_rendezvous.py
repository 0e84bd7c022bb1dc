"""The ranks of vLLM's own executor find each other, by the lines of its recorded logs."""

from __future__ import annotations

from sparkfleet.launch.startup.rendezvous import Rendezvous
from tests.gb10 import output

HEAD = output("vllm-0.20.2-mp-tp2-nccl-good-head.log").split("\n")
WORKER = output("vllm-0.20.2-mp-tp2-nccl-good-worker.log").split("\n")
HOSTS = ("spark-1", "spark-2")


def _heard(*heard: tuple[str, list[str], float]) -> Rendezvous:
    made = Rendezvous(hosts=HOSTS, limit=300)
    for host, lines, now in heard:
        for line in lines:
            made.feed(host, line, now)
    return made


def _until(lines: list[str], mark: str) -> list[str]:
    """Return the lines before the one with `mark`."""
    return lines[: next(number for number, line in enumerate(lines) if mark in line)]


def test_a_group_that_formed_has_no_verdict() -> None:
    made = _heard(("spark-2", WORKER, 10), ("spark-1", HEAD, 40))
    assert made.joined == {*HOSTS}
    assert [made.find_problem(host, 10_000) for host in HOSTS] == ["", ""]


def test_before_any_rank_connected_silence_does_not_fail() -> None:
    made = _heard(("spark-1", _until(HEAD, "world_size=2 rank=0"), 10))
    assert made.find_problem("spark-1", 10_000) == ""


def test_the_rank_that_did_not_come_is_named_not_the_one_that_waits() -> None:
    made = _heard(("spark-2", _until(WORKER, "is assigned"), 10))
    assert made.find_problem("spark-1", 309) == ""
    late = made.find_problem("spark-1", 311)
    assert late == "rank did not connect to the head within 300 s of the rank on spark-2"
    assert made.find_problem("spark-2", 311) == ""


def test_ranks_that_connected_and_form_no_group_have_their_own_message() -> None:
    logs = (("spark-2", WORKER, 10), ("spark-1", HEAD, 100))
    made = _heard(*((host, _until(lines, "is assigned"), now) for host, lines, now in logs))
    assert made.find_problem("spark-1", 399) == ""
    assert "the NCCL group was not formed within 300 s" in made.find_problem("spark-1", 401)

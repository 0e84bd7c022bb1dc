"""Memory that is given back: after ranks ended, and from the page cache."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.errors import CommandError
from sparkfleet.launch.preflight import page_cache
from sparkfleet.model import Host, Severity
from sparkfleet.onhost.host import memory
from sparkfleet.remote.local import LocalConnection

GIB = 1 << 30
PREPARE = Path(__file__).parents[3] / "playbooks" / "hosts-prepare.yml"
SHELL_BUILTINS = {"echo"}


@pytest.fixture
def link() -> LocalConnection:
    return LocalConnection(Host(name="here"))


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is searched for programs first."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def _tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)


def test_a_report_has_available_memory_and_gpu_processes(
    link: LocalConnection, tools: Path
) -> None:
    _tool(tools, "nvidia-smi", "echo '168864, 24420'; echo '169094, [N/A]'")
    seen = page_cache.inspect_memory(link)
    assert seen.gpu == {"168864": 24420 << 20}
    assert seen.available > seen.free // 2 > 0


def test_a_gpu_with_memory_of_its_own_uses_none_of_the_host(
    link: LocalConnection, tools: Path
) -> None:
    answers = "case $1 in *memory.total) echo 81559 ;; *) echo '488, 8710' ;; esac"
    _tool(tools, "nvidia-smi", answers)
    assert page_cache.inspect_memory(link).gpu == {}


def test_memory_of_a_process_that_lives_on_is_not_waited_for(
    link: LocalConnection, tools: Path
) -> None:
    _tool(tools, "nvidia-smi", "echo '7, 999999'")
    before = page_cache.inspect_memory(link)
    returned = page_cache.wait_for_memory(link, replace(before, available=before.available - GIB))
    assert (returned.held, returned.whole) == (0, True)
    assert page_cache.check_reclaimed_memory("here", returned).severity is Severity.OK


def test_memory_that_does_not_come_back_is_reported_after_a_bounded_wait(
    link: LocalConnection, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "PATIENCE", 0.3)
    _tool(tools, "nvidia-smi", "exit 9")
    began = time.monotonic()
    returned = page_cache.wait_for_memory(
        link, replace(page_cache.inspect_memory(link), gpu={"7": 900 * GIB})
    )
    assert time.monotonic() - began > 0.3
    verdict = page_cache.check_reclaimed_memory("here", returned)
    assert verdict.severity is Severity.WARNING
    assert verdict.expected == "the 900.0 GiB that the ranks held on the GPU"
    assert "reboot" in verdict.fix


def test_memory_that_came_back_is_reported_at_once(link: LocalConnection, tools: Path) -> None:
    _tool(tools, "nvidia-smi", "true")
    before = page_cache.inspect_memory(link)
    before = replace(before, available=before.available - 4 * GIB, gpu={"7": GIB})
    returned = page_cache.wait_for_memory(link, before)
    assert (returned.held, returned.whole) == (GIB, True)
    assert re.fullmatch(r"\d+\.\d GiB available, \d\.\d GiB reclaimed in 0 s", str(returned))


def test_the_page_cache_is_emptied_by_the_documented_command(
    link: LocalConnection, tools: Path
) -> None:
    _tool(tools, "sudo", f"printf '%s\\n' \"$@\" >{tools}/words")
    before, after = page_cache.drop_caches(link)
    assert min(before, after) > 0
    documented = "/bin/sync; echo 3 > /proc/sys/vm/drop_caches"
    assert (tools / "words").read_text().splitlines() == ["-n", "sh", "-c", documented]


def test_no_program_of_the_rule_is_found_by_the_path_of_the_user() -> None:
    shell, option, script = page_cache.DROP_COMMAND
    assert ("sudo", "-n", *page_cache.DROP_COMMAND) == memory.DROP
    assert f'drop: "{option} {script}"' in PREPARE.read_text()
    for command in script.split("; "):
        name = command.split()[0]
        assert name.startswith("/") or name in SHELL_BUILTINS, name
    assert (shell, option) == ("sh", "-c")  # the rule itself names /bin/sh and /usr/bin/sh


def test_a_user_who_may_not_gets_a_hint(link: LocalConnection, tools: Path) -> None:
    _tool(tools, "sudo", "echo 'sudo: a password is required' >&2; exit 1")
    with pytest.raises(CommandError, match="sudo -n: sudo: a password is required") as caught:
        page_cache.drop_caches(link)
    assert "drop_caches: false" in str(caught.value.hint)
    verdict = page_cache.check_drop_caches(link)
    assert verdict.refuses
    assert verdict.seen == "sudo: a password is required"


def test_whether_a_user_may_is_asked_without_doing_it(link: LocalConnection, tools: Path) -> None:
    _tool(tools, "sudo", f"printf '%s\\n' \"$@\" >{tools}/words")
    assert not page_cache.check_drop_caches(link).refuses
    assert (tools / "words").read_text().splitlines()[:3] == ["-n", "-l", "sh"]

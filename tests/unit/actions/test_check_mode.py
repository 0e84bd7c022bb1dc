"""--check: it looks at the lock, and what did not run is shown as skipped."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkfleet.actions.action import Plan
from sparkfleet.actions.deploy import wait_ready
from sparkfleet.actions.run import lock, receipt
from sparkfleet.actions.run_context import RunOptions
from sparkfleet.errors import LockHeldError
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.startup.ranks import RankUpdate
from sparkfleet.model import Change, Cluster, Host, Status, Value
from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.playbook.attempt import _build_outcome
from sparkfleet.recipes.settings import Settings
from sparkfleet.vllm.milestones import Milestone, Phase
from tests.scenes import inventory, play

ONE = inventory(("one",))
CHECK = RunOptions(check=True)
HOLDER = {"user": "u", "machine": "m", "pid": "7", "since": "now", "command": "cluster.up"}


@pytest.mark.parametrize("alive", [True, None])
def test_a_check_next_to_a_live_run_says_so_and_exits_with_75(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    alive: bool | None,
) -> None:
    monkeypatch.setattr(lock, "fetch_lock_holder", lambda *_: HOLDER)
    monkeypatch.setattr(lock, "is_process_running", lambda _: alive)
    with pytest.raises(LockHeldError, match="a run is in progress on cluster") as caught:
        play(tmp_path, "- lock:\n", hosts=ONE, options=CHECK)
    assert caught.value.exit_code == 75


@pytest.mark.parametrize(("holder", "alive"), [(None, True), (HOLDER, False)])
def test_a_lock_that_is_free_or_stale_does_not_stop_a_check(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    holder: dict[str, str] | None,
    alive: bool,
) -> None:
    monkeypatch.setattr(lock, "fetch_lock_holder", lambda *_: holder)
    monkeypatch.setattr(lock, "is_process_running", lambda _: alive)
    _, record = play(tmp_path, "- name: it\n  lock:\n", hosts=ONE, options=CHECK)
    outcome = record.outcomes("it")["one"]
    assert (outcome.status, outcome.message) == (Status.OK, "not locked by another run")


def test_a_task_that_needs_the_lock_runs_under_check_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "fetch_lock_holder", lambda *_: None)
    tasks = "- lock:\n- survey:\n- name: Stop\n  stop_deployment:\n"
    ended, record = play(tmp_path, tasks, hosts=ONE, options=CHECK)
    assert ended.exit_code == 0
    assert record.outcomes("Stop")["one"].message == "no deployment is running"


@pytest.mark.parametrize(
    ("check", "plan", "status"),
    [
        (True, Plan(work=True), Status.SKIPPED),
        (False, Plan(work=True), Status.OK),
        (True, Plan(), Status.OK),
        (True, Plan(changes=(Change(summary="write"),)), Status.CHANGED),
        (True, Plan(work=True, failed=True), Status.FAILED),
    ],
)
def test_work_that_did_not_run_in_check_mode_is_skipped(
    check: bool,
    plan: Plan,
    status: Status,
) -> None:
    run: Any = SimpleNamespace(options=RunOptions(check=check))
    outcome = _build_outcome(run, "one", plan)
    assert outcome.status is status
    assert (outcome.message == "not run in check mode") == (status is Status.SKIPPED)


def test_a_rolled_back_task_is_reported(tmp_path: Path) -> None:
    tasks = f"""\
- name: Make a folder
  file: {{path: {tmp_path}/made, state: directory}}
- command: "false"
"""
    _, record = play(tmp_path, tasks, hosts=ONE)
    assert record.notes() == ["rolled back on one: Make a folder"]
    assert not (tmp_path / "made").exists()


def _end(variables: dict[str, Any], executor: Executor = Executor.UNI) -> list[str]:
    """Return the last lines of a start with `variables`."""
    values = {name: Value(data=value) for name, value in variables.items()}
    settings = Settings(host=Host(name="one", vars=values))
    run: Any = SimpleNamespace(
        cluster=SimpleNamespace(head=SimpleNamespace(address="10.0.0.1")),
        settings=lambda _: settings,
    )
    deployment = SimpleNamespace(
        listens_on=settings.text("vllm_host"), port=8000, served_name="m", executor=executor
    )
    launch: Any = SimpleNamespace(deployment=deployment)
    return receipt._format_endpoint_lines(run, launch)


@pytest.mark.parametrize("env", [{}, {"VLLM_API_KEY": "secret"}])
def test_the_end_says_where_it_listens_and_how_to_ask(env: dict[str, str]) -> None:
    endpoint, access, curl, following = _end({"vllm_env": env})
    assert endpoint == "endpoint http://10.0.0.1:8000/v1  model m"
    assert access.startswith("listens on port 8000 of every interface, with")
    assert ("without an API key" in access) == (not env)
    assert curl.startswith("try: curl http://10.0.0.1:8000/v1/chat/completions ")
    assert ("Bearer $VLLM_API_KEY" in curl) == bool(env)
    assert "secret" not in curl
    assert "serve.smoke" in following


@pytest.mark.parametrize(
    ("address", "url", "says"),
    [
        (ALL_INTERFACES, "http://10.0.0.1:8000/v1", "listens on port 8000 of every interface, "),
        ("10.9.0.1", "http://10.9.0.1:8000/v1", "listens on 10.9.0.1:8000, without an API key: "),
        ("127.0.0.1", "http://127.0.0.1:8000/v1", "8000, which only this head can reach, "),
    ],
)
def test_the_end_names_the_address_that_the_endpoint_listens_on(
    address: str, url: str, says: str
) -> None:
    endpoint, access, curl, _ = _end({"vllm_host": address})
    assert endpoint == f"endpoint {url}  model m"
    assert says in access
    assert f"curl {url}/chat/completions" in curl


def test_the_end_names_the_ports_of_ray() -> None:
    lines = _end({"ray_port": 7379}, Executor.RAY)
    assert any(line.startswith("Ray listens on ports 7379, 6380, 6381 and 20000") for line in lines)


def test_a_wait_shows_its_time_and_its_limit() -> None:
    said: list[Any] = []
    cluster = Cluster(name="default", hosts=(Host(name="one"),))
    run: Any = SimpleNamespace(report=said.append, cluster=cluster)
    milestone = Milestone(
        rank=None, address=None, pid=None, phase=Phase.LOADING, text="", done=1, total=4
    )
    update = RankUpdate(host="one", rank=None, milestone=milestone)
    wait_ready._report_update(run, update, 12.4, 1800.0)
    assert said[0].text.endswith(" (12 s of at most 1800 s)")
    assert (said[0].host, said[0].done, said[0].total) == ("one", 1, 4)

"""Runs behave as an Ansible user expects: variables, results, `run_once`, `no_log`, round trips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.commands import Command
from sparkfleet.errors import InventoryError, PlaybookError, TemplateError
from sparkfleet.model import Host, Status
from sparkfleet.playbook import task_reader, vocabulary
from sparkfleet.remote.channel import Channel
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.local import LocalConnection
from sparkfleet.report.events import RunStopped
from sparkfleet.report.log import LogReporter
from tests.scenes import Recorder, inventory, play


def _said(record: Recorder, task: str) -> dict[str, str]:
    return {name: outcome.message for name, outcome in record.outcomes(task).items()}


def test_the_vars_of_a_play_win_over_the_inventory_and_are_rendered_late(tmp_path: Path) -> None:
    text = (
        "- hosts: sparks\n"
        "  vars: {who: '{{ inventory_hostname }}', color: red, both: '{{ who }}-{{ color }}'}\n"
        "  tasks:\n"
        "    - name: it\n"
        "      debug: {msg: '{{ both }}'}\n"
        "- hosts: sparks\n"
        "  tasks:\n"
        "    - name: after\n"
        "      debug: {msg: '{{ color }}'}\n"
    )
    _, record = play(tmp_path, text, hosts=inventory(color="green"))
    assert _said(record, "it") == {"spark-01": "spark-01-red", "spark-02": "spark-02-red"}
    assert _said(record, "after") == {"spark-01": "green", "spark-02": "green"}


def test_a_circular_reference_is_reported(tmp_path: Path) -> None:
    text = (
        "- hosts: sparks\n"
        "  vars: {a: '{{ b }}', b: '{{ a }}'}\n"
        "  tasks: [{debug: {msg: '{{ a }}'}}]\n"
    )
    with pytest.raises(PlaybookError, match="circular reference: a -> b -> a"):
        play(tmp_path, text)


def test_our_variables_of_a_play_reach_the_actions_of_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    class Look(Action[NoArgs]):
        name = "look"

        def plan(self, scene: RunContext, seen_on: Mapping[str, Any]) -> Mapping[str, Plan]:
            for host in scene.cluster.hosts:
                settings = scene.settings(host)
                seen[host.name] = (settings.integer("vllm_port"), str(settings.origin("vllm_port")))
            return {}

    for module in (vocabulary, task_reader):
        monkeypatch.setattr(module, "ACTIONS", {**vocabulary.ACTIONS, "look": Look})
    text = "- hosts: sparks\n  vars: {vllm_port: '{{ 9000 + rank }}'}\n  tasks: [{look: }]\n"
    play(tmp_path, text, hosts=inventory(vllm_port=8001))
    assert {name: port for name, (port, _) in seen.items()} == {"spark-01": 9000, "spark-02": 9001}
    assert seen["spark-01"][1].endswith("play.yml:2:21")
    play(tmp_path, text, hosts=inventory(vllm_port=7000), given={"vllm_port": 7000})
    assert seen["spark-01"][0] == 7000


def test_a_registered_result_has_ansibles_fields(tmp_path: Path) -> None:
    text = (
        "- command: echo hi\n"
        "  register: r\n"
        "- command: echo no\n"
        "  register: s\n"
        "  when: rank > 5\n"
        "- assert:\n"
        "    that:\n"
        "      - r is changed and r is succeeded and not r is failed and not r is skipped\n"
        "      - r.rc == 0 and r.stdout == 'hi' and r.stdout_lines == ['hi'] and r.stderr == ''\n"
        "      - s is skipped and s is not changed and s.stdout is not defined\n"
    )
    ended, record = play(tmp_path, text)
    assert ended.exit_code == 0, record.outcomes("assert")


def test_a_rescue_sees_what_failed(tmp_path: Path) -> None:
    text = (
        "- block:\n"
        "    - name: bad on {{ inventory_hostname }}\n"
        "      command: sh -c 'exit {{ 3 if rank == 0 else 0 }}'\n"
        "  rescue:\n"
        "    - name: it\n"
        "      debug: {msg: 'rc {{ ansible_failed_result.rc }}'}\n"
        "      when: ansible_failed_task is defined\n"
    )
    ended, record = play(tmp_path, text)
    assert ended.exit_code == 0
    assert _said(record, "it") == {"spark-01": "rc 3", "spark-02": ""}
    assert "bad on spark-01" in record.titles()


def test_conditions_of_a_block_are_asked_before_each_of_its_tasks(tmp_path: Path) -> None:
    text = (
        "- set: {go: true}\n"
        "- when: go\n"
        "  block:\n"
        "    - set: {go: '{{ rank == 0 }}'}\n"
        "    - name: it\n"
        "      debug: {msg: x}\n"
        "  always:\n"
        "    - name: end\n"
        "      debug: {msg: y}\n"
    )
    _, record = play(tmp_path, text)
    for task in ("it", "end"):
        statuses = {name: one.status for name, one in record.outcomes(task).items()}
        assert statuses == {"spark-01": Status.OK, "spark-02": Status.SKIPPED}


def test_run_once_runs_on_the_first_host_and_registers_on_all(tmp_path: Path) -> None:
    text = (
        "- name: once\n"
        "  command: echo {{ inventory_hostname }}\n"
        "  run_once: true\n"
        "  register: r\n"
        "- set: {from: '{{ inventory_hostname }}'}\n"
        "  run_once: true\n"
        "- name: it\n"
        "  debug: {msg: '{{ r.stdout }} {{ from }}'}\n"
    )
    _, record = play(tmp_path, text)
    assert list(record.outcomes("once")) == ["spark-01"]
    assert _said(record, "it") == dict.fromkeys(("spark-01", "spark-02"), "spark-01 spark-01")


def test_until_is_asked_for_each_host_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "count-{{ inventory_hostname }}"
    text = (
        f"- name: it\n"
        f"  shell: echo x >> '{file}'; wc -l < '{file}'\n"
        "  register: r\n"
        "  until: r.stdout | int > rank * 2\n"
        "  retries: 5\n"
        "  delay: 0\n"
    )
    ended, record = play(tmp_path, text)
    assert ended.exit_code == 0
    counts = {name: one.data["stdout"] for name, one in record.outcomes("it").items()}
    assert counts == {"spark-01": "1", "spark-02": "3"}


def test_until_can_wait_for_a_command_that_fails(tmp_path: Path) -> None:
    text = (
        f"- name: it\n"
        f"  shell: echo x >> '{tmp_path}/n'; test $(wc -l < '{tmp_path}/n') -ge 3\n"
        "  register: r\n"
        "  until: r.rc == 0\n"
        "  delay: 0\n"
    )
    ended, _ = play(tmp_path, text, hosts=inventory(("spark-01",)))
    assert ended.exit_code == 0


SECRET = "hunter2-Geheimnis"
SECRETIVE = [
    f"- command: echo {SECRET}\n  no_log: true\n",
    f"- shell: echo {SECRET} >&2; exit 1\n  no_log: true\n",
    f"- debug: {{msg: {SECRET}}}\n  no_log: true\n",
    f"- copy: {{content: {SECRET}, dest: DEST}}\n  no_log: true\n",
    f"- copy: {{content: {SECRET}, dest: /none/x}}\n  no_log: true\n",
    f"- set: {{password: {SECRET}}}\n  no_log: true\n",
    "- debug: {msg: '{{ password | int(\"x\") + 1 }}'}\n  no_log: true\n",
    "- wait_tcp: {port: '{{ password }}'}\n  no_log: true\n",
    "- name: task {{ password }}\n  debug: {msg: x}\n  no_log: true\n",
    "- debug: {msg: x}\n  when: password\n  no_log: true\n",
    f"- assert: {{that: '1 == 2', fail_msg: {SECRET}}}\n  no_log: true\n",
]


@pytest.mark.parametrize("text", SECRETIVE)
def test_no_log_lets_nothing_out(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = inventory(("spark-01",), password=SECRET)
    log = tmp_path / "log"
    record = Recorder()
    try:
        _, record = play(tmp_path, text.replace("DEST", str(tmp_path / "secret")), hosts=hosts)
    except PlaybookError as error:
        record.handle(RunStopped(problems=error.problems, exit_code=5))
    with LogReporter(log) as reporter:
        for event in record.events:
            reporter.handle(event)
    assert "no_log" in log.read_text()
    assert SECRET not in repr(record.events) + log.read_text() + "".join(capsys.readouterr())


def test_what_no_log_hid_can_still_be_used(tmp_path: Path) -> None:
    text = (
        "- command: echo x\n"
        "  register: r\n"
        "  no_log: true\n"
        "- name: it\n"
        "  assert: {that: r.stdout == 'x'}\n"
    )
    assert play(tmp_path, text)[0].exit_code == 0


class CountingLink(LocalConnection):
    """Counts the channels of each host."""

    opened: Counter[str] = Counter()  # noqa: RUF012 - one for all
    channels: Counter[str] = Counter()  # noqa: RUF012 - the same

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.opened[host.name] += 1

    def _start(self, command: Command) -> Channel:
        self.channels[self.host.name] += 1
        return super()._start(command)


@pytest.mark.parametrize(
    ("text", "channels"),
    [
        ("- command: 'true'\n" * 10, 10),
        ("- shell: exit 0\n- debug: {msg: x}\n- set: {a: 1}\n- assert: {that: a == 1}\n", 1),
        ("- copy: {content: x, dest: 'PATH'}\n", 2),
        ("- copy: {content: x, dest: 'PATH'}\n- copy: {content: x, dest: 'PATH'}\n", 2),
        ("- file: {path: 'PATH', state: directory}\n- wait_tcp: {port: 1, state: stopped}\n", 1),
        ("- command: 'true'\n  become: true\n  when: false\n", 0),
    ],
)
def test_a_run_costs_one_connection_a_host_and_one_channel(
    tmp_path: Path, text: str, channels: int
) -> None:
    CountingLink.opened.clear()
    CountingLink.channels.clear()
    text = text.replace("PATH", f"{tmp_path}/{{{{ inventory_hostname }}}}")
    ended, _ = play(tmp_path, text, open_link=CountingLink)
    assert ended.exit_code == 0
    names = ("spark-01", "spark-02") if channels else ()
    assert CountingLink.opened == dict.fromkeys(names, 1)
    assert CountingLink.channels == dict.fromkeys(names, channels)


class Impossible(Connection):
    """A link that must not be opened."""

    def __init__(self, host: Host) -> None:
        raise AssertionError(f"{host.name} was touched")

    def _start(self, command: Command) -> Channel:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def test_hosts_are_chosen_by_the_plays_pattern_and_the_limit(tmp_path: Path) -> None:
    text = (
        "- hosts: sparks[0]\n  tasks: [{name: one, debug: {msg: x}}]\n"
        "- hosts: sparks:!spark-01\n  tasks: [{name: two, debug: {msg: x}}]\n"
        "- hosts: '{{ where }}'\n  tasks: [{name: three, debug: {msg: x}}]\n"
        "- hosts: localhost\n  tasks: [{name: four, debug: {msg: x}}]\n"
    )
    _, record = play(tmp_path, text, given={"where": "all"})
    hosts = {task: list(record.outcomes(task)) for task in ("one", "two", "three", "four")}
    assert hosts == {
        "one": ["spark-01"],
        "two": ["spark-02"],
        "three": ["spark-01", "spark-02"],
        "four": ["localhost"],
    }
    _, record = play(tmp_path, text, given={"where": "all"}, limit="spark-02")
    assert [(task, host) for task, host, _ in record.ended()] == [
        ("two", "spark-02"),
        ("three", "spark-02"),
    ]


@pytest.mark.parametrize(
    ("hosts", "limit", "error"),
    [
        ("spraks", None, PlaybookError),
        ("sparks", "nowhere", InventoryError),
        ("spark-01", "spark-02", InventoryError),
        ("'{{ nothing }}'", None, PlaybookError),
    ],
)
def test_a_selection_without_hosts_is_an_error(
    tmp_path: Path, hosts: str, limit: str | None, error: type[Exception]
) -> None:
    text = f"- hosts: {hosts}\n  tasks: [{{command: ls}}]\n"
    with pytest.raises(error):
        play(tmp_path, text, limit=limit, open_link=Impossible)


def test_an_action_of_the_cluster_wants_the_whole_cluster(tmp_path: Path) -> None:
    text = "- hosts: spark-01\n  tasks: [{survey: }]\n"
    with pytest.raises(PlaybookError, match="leaves out spark-02"):
        play(tmp_path, text, open_link=Impossible)


def test_check_touches_no_host_with_what_could_write(tmp_path: Path) -> None:
    text = (
        "- command: ls\n- shell: ls\n- debug: {msg: x}\n- set: {a: 1}\n- assert: {that: a == 1}\n"
        "- wait_tcp: {port: 1}\n- wait_http: {url: 'http://localhost'}\n- pause: {seconds: 60}\n"
    )
    ended, _ = play(tmp_path, text, options=RunOptions(check=True), open_link=Impossible)
    assert ended.exit_code == 0


def test_an_error_in_a_template_of_a_task_is_an_error_of_the_playbook(tmp_path: Path) -> None:
    with pytest.raises((PlaybookError, TemplateError), match="division"):
        play(tmp_path, "- debug: {msg: '{{ 1 / 0 }}'}\n")

"""The engine: a barrier after each task, one failure stops all, and what was done is undone."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.conditions import Condition
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.commands import Command
from sparkfleet.errors import CommandError, LockHeldError, PlaybookError, UnreachableError
from sparkfleet.model import Change, Status
from sparkfleet.playbook import vocabulary
from sparkfleet.playbook.engine import PlaybookRunner, RunResult
from sparkfleet.playbook.syntax import Block, Play, Task, TaskOrBlock
from sparkfleet.remote.connection import Connection
from sparkfleet.report import events
from tests.scenes import NAMES, Recorder, assigned, play, scene


class Diary:
    """Makes actions that write down each of their steps, and can fail in one."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def action(
        self, word: str, *, fails_on: str = "", error: type[Exception] = CommandError
    ) -> type[Action[NoArgs]]:
        diary = self

        class Noted(Action[NoArgs]):
            name = word
            undoes = True

            def plan(self, scene: RunContext, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
                diary.lines.append(f"plan {word}")
                return {name: Plan(changes=(Change(summary=word),), work=word) for name in seen}

            def apply(self, scene: RunContext, link: Connection, plan: Plan) -> Plan:
                diary.lines.append(f"apply {word} {link.host.name}")
                if link.host.name == fails_on:
                    raise make(error, f"{word} broke", fails_on)
                return Plan(changes=plan.changes)

            def salvage(self, scene: RunContext, link: Connection) -> None:
                diary.lines.append(f"salvage {word} {link.host.name}")

            def undo(self, scene: RunContext, link: Connection, plan: Plan) -> None:
                diary.lines.append(f"undo {plan.work} {link.host.name}")

        return Noted

    def words(self, *steps: str) -> list[str]:
        """Return the lines of `steps` without their hosts."""
        return [line.rsplit(" ", 1)[0] for line in self.lines if line.startswith(steps)]


def make(kind: type[Exception], text: str, host: str) -> Exception:
    if issubclass(kind, CommandError | UnreachableError):
        return kind(text, host=host)
    return kind(text)


Run = Callable[..., tuple[RunResult, Recorder]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    def play(*steps: TaskOrBlock, actions: list[type[Action[Any]]], check: bool = False) -> Any:
        monkeypatch.setattr(vocabulary, "ACTIONS", {action.name: action for action in actions})
        with scene(tmp_path, options=RunOptions(check=check, tp=2)) as made:
            plays = assigned(made, [Play(name="p", hosts="all", tasks=steps)])
            return PlaybookRunner(made).run(plays), made.reporter

    return play


def task(word: str, *, when: str = "", until: str = "", **more: Any) -> Task:
    conditions = (Condition(text=when),) if when else ()
    return Task(
        name=word,
        action=word,
        when=conditions,
        until=(Condition(text=until),) if until else (),
        **more,
    )


def test_a_run_counts_what_each_host_did(run: Run) -> None:
    diary = Diary()
    ended, record = run(task("one"), actions=[diary.action("one")])
    assert ended.exit_code == 0
    assert ended.recap == {name: {Status.CHANGED: 1} for name in NAMES}
    assert record.ended() == [("one", name, Status.CHANGED) for name in NAMES]


def test_check_plans_and_never_applies(run: Run) -> None:
    diary = Diary()
    ended, _ = run(task("one"), actions=[diary.action("one")], check=True)
    assert diary.lines == ["plan one"]
    assert ended.recap == {name: {Status.CHANGED: 1} for name in NAMES}


def test_one_failed_host_stops_all_and_undoes_the_newest_first(run: Run) -> None:
    diary = Diary()
    actions = [diary.action("one"), diary.action("two", fails_on="spark-02"), diary.action("three")]
    ended, _ = run(task("one"), task("two"), task("three"), actions=actions)
    assert ended.exit_code == 2
    assert not [line for line in diary.lines if "three" in line]
    words = diary.words("salvage", "undo")
    assert words == ["salvage two"] * 2 + ["salvage one"] * 2 + ["undo two"] * 2 + ["undo one"] * 2


def test_an_unreachable_host_is_left_alone_and_the_others_are_undone(run: Run) -> None:
    diary = Diary()
    actions = [diary.action("one", fails_on="spark-02", error=UnreachableError)]
    ended, record = run(task("one"), actions=actions)
    assert ended.exit_code == 4
    assert ("one", "spark-02", Status.UNREACHABLE) in record.ended()
    assert "undo one spark-01" in diary.lines
    assert "undo one spark-02" not in diary.lines


def test_rescue_clears_a_failure_and_always_runs(run: Run) -> None:
    diary = Diary()
    actions = [diary.action("bad", fails_on="spark-01"), diary.action("mend"), diary.action("tidy")]
    block = Block(name="b", block=(task("bad"),), rescue=(task("mend"),), always=(task("tidy"),))
    ended, _ = run(block, actions=actions)
    assert diary.words("apply") == ["apply bad"] * 2 + ["apply mend"] * 2 + ["apply tidy"] * 2
    assert not diary.words("undo")
    assert ended.exit_code == 0
    assert ended.recap["spark-01"][Status.RESCUED] == 1
    assert ended.recap["spark-01"][Status.FAILED] == 0


def test_a_lost_host_is_cleaned_up_after_but_not_rescued(run: Run) -> None:
    diary = Diary()
    actions = [
        diary.action("bad", fails_on="spark-01", error=UnreachableError),
        diary.action("mend"),
        diary.action("next"),
    ]
    block = Block(name="b", block=(task("bad"),), rescue=(task("mend"),))
    ended, _ = run(block, task("next"), actions=actions)
    assert "apply mend spark-02" in diary.lines
    assert not [line for line in diary.lines if "next" in line or "mend spark-01" in line]
    assert ended.exit_code == 4


def test_a_task_reports_its_hosts(run: Run) -> None:
    diary = Diary()
    actions = [
        diary.action("bad", fails_on="spark-01", error=UnreachableError),
        diary.action("mend"),
    ]
    block = Block(name="b", block=(task("bad"),), always=(task("mend"),))
    _, record = run(block, actions=actions)
    started = [event for event in record.events if isinstance(event, events.TaskStarted)]
    assert [event.hosts for event in started] == [NAMES, ("spark-02",)]


def test_blocks_nest_and_each_always_runs_from_the_inside_out(run: Run) -> None:
    diary = Diary()
    actions = [diary.action(word) for word in ("inner", "outer", "mend")]
    actions.append(diary.action("bad", fails_on="spark-01"))
    inside = Block(name="i", block=(task("bad"),), always=(task("inner"),))
    outside = Block(name="o", block=(inside,), rescue=(task("mend"),), always=(task("outer"),))
    ended, _ = run(outside, actions=actions)
    words = [word for word in diary.words("apply") if word != "apply bad"]
    assert words == ["apply inner"] * 2 + ["apply mend"] * 2 + ["apply outer"] * 2
    assert ended.exit_code == 0


def test_a_failure_inside_a_rescue_is_a_failure(run: Run) -> None:
    diary = Diary()
    actions = [diary.action(word, fails_on="spark-01") for word in ("bad", "worse")]
    block = Block(name="b", block=(task("bad"),), rescue=(task("worse"),))
    ended, _ = run(block, actions=actions)
    assert ended.exit_code == 2
    assert diary.words("undo") == ["undo worse"] * 2 + ["undo bad"] * 2


def test_when_chooses_hosts_and_skips_the_others(run: Run) -> None:
    diary = Diary()
    one = task("one", when="inventory_hostname == 'spark-02'")
    _, record = run(one, actions=[diary.action("one")])
    assert set(record.ended()) == {
        ("one", "spark-01", Status.SKIPPED),
        ("one", "spark-02", Status.CHANGED),
    }


def test_register_hands_an_outcome_to_later_conditions(run: Run) -> None:
    diary = Diary()
    steps = (task("one", register="first"), task("two", when="not first.changed"))
    run(*steps, actions=[diary.action("one"), diary.action("two")])
    assert not [line for line in diary.lines if "two" in line]


def test_a_skipped_task_registers_that_it_was_skipped(run: Run) -> None:
    diary = Diary()
    steps = (
        task("one", register="first", when="rank == 1"),
        task("two", when="first is skipped"),
    )
    run(*steps, actions=[diary.action("one"), diary.action("two")])
    assert [line for line in diary.lines if line.startswith("apply two")] == ["apply two spark-01"]


def test_a_failed_task_is_tried_again_as_often_as_it_says(run: Run) -> None:
    diary = Diary()
    one = task("one", retries=2, delay=0)
    ended, _ = run(one, actions=[diary.action("one", fails_on="spark-01")])
    assert len(diary.words("plan")) == 3
    assert ended.exit_code == 2


def test_until_ends_the_attempts_and_fails_when_it_never_holds(run: Run) -> None:
    diary = Diary()
    one = task("one", register="r", until="r.attempts == 2", retries=3, delay=0)
    two = task("two", register="r", until="r.failed", retries=1, delay=0)
    ended, record = run(one, two, actions=[diary.action("one"), diary.action("two")])
    assert diary.words("plan") == ["plan"] * 4
    assert ended.exit_code == 2
    assert "still not true after 2 attempts: r.failed" in record.outcomes("two")["spark-01"].message


def test_an_unreachable_host_is_not_tried_again(run: Run) -> None:
    diary = Diary()
    actions = [diary.action("one", fails_on="spark-01", error=UnreachableError)]
    run(task("one", retries=5, delay=60), actions=actions)
    assert len(diary.words("plan")) == 1


def test_a_condition_without_a_value_stops_the_run_and_undoes_it(run: Run) -> None:
    diary = Diary()
    actions = [diary.action("one"), diary.action("two")]
    with pytest.raises(PlaybookError, match="'nothing' is undefined"):
        run(task("one"), task("two", when="nothing > 1"), actions=actions)
    assert diary.words("undo") == ["undo one"] * 2


@pytest.mark.parametrize("text", ["'false'", "nodes", "[1]", "none"])
def test_a_condition_is_true_or_false_and_nothing_else(run: Run, text: str) -> None:
    diary = Diary()
    with pytest.raises(PlaybookError, match="neither true nor false"):
        run(task("one", when=text), actions=[diary.action("one")])
    assert diary.lines == []


def test_a_held_lock_ends_the_run_as_itself(run: Run) -> None:
    diary = Diary()
    with pytest.raises(LockHeldError):
        run(task("one"), actions=[diary.action("one", fails_on="spark-01", error=LockHeldError)])


def test_a_bug_ends_the_run_as_itself_after_the_undo(run: Run) -> None:
    diary = Diary()
    actions = [diary.action("one"), diary.action("two", fails_on="spark-01", error=KeyError)]
    with pytest.raises(KeyError):
        run(task("one"), task("two"), actions=actions)
    assert diary.words("undo") == ["undo two"] * 2 + ["undo one"] * 2


def test_ctrl_c_runs_always_and_undoes_and_ends_with_130(run: Run) -> None:
    diary = Diary()

    class Impatient(Action[NoArgs]):
        name = "impatient"

        def plan(self, scene: RunContext, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
            raise KeyboardInterrupt

    block = Block(name="b", block=(task("impatient"),), always=(task("tidy"),))
    actions = [diary.action("one"), diary.action("tidy"), Impatient]
    ended, _ = run(task("one"), block, actions=actions)
    assert ended.exit_code == 130
    assert "apply tidy spark-01" in diary.lines
    assert "undo one spark-01" in diary.lines


def test_ctrl_c_drops_what_runs_on_the_hosts(run: Run, tmp_path: Path) -> None:
    def press() -> None:
        while len(list(tmp_path.glob("running-*"))) < len(NAMES):
            time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    class Slow(Action[NoArgs]):
        name = "slow"

        def plan(self, scene: RunContext, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
            return {name: Plan(work=True) for name in seen}

        def apply(self, scene: RunContext, link: Connection, plan: Plan) -> Plan:
            script = f"touch {tmp_path}/running-{link.host.name}; exec cat"
            link.run(Command(argv=("sh", "-c", script)), hold=True, timeout=60)
            return plan

    began = time.monotonic()
    threading.Thread(target=press).start()
    ended, record = run(task("slow"), actions=[Slow])
    assert ended.exit_code == 130
    assert time.monotonic() - began < 60
    assert record.notes() == ["interrupted; rolling back"]


def test_a_second_ctrl_c_before_the_rollback_has_begun_is_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []

    def report(self: RunContext, event: events.Event) -> None:
        if isinstance(event, events.Note):
            notes.append(event.text)
            if len(notes) == 1:
                raise KeyboardInterrupt

    class Interrupted(Action[NoArgs]):
        name = "interrupted"

        def plan(self, scene: RunContext, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunContext, "report", report)
    with pytest.raises(KeyboardInterrupt):
        run(task("interrupted"), actions=[Interrupted])
    first, second = notes
    assert first == "interrupted; rolling back"
    assert second.startswith("rollback interrupted; see ")


def test_a_failed_undo_is_reported_and_the_rest_is_undone(run: Run) -> None:
    diary = Diary()

    class Stubborn(Action[NoArgs]):
        name = "stubborn"
        undoes = True

        def plan(self, scene: RunContext, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
            return {name: Plan(work=True) for name in seen}

        def salvage(self, scene: RunContext, link: Connection) -> None:
            raise CommandError("no file", host=link.host.name)

        def undo(self, scene: RunContext, link: Connection, plan: Plan) -> None:
            raise CommandError("will not", host=link.host.name)

    actions = [diary.action("one"), Stubborn, diary.action("bad", fails_on="spark-01")]
    _, record = run(task("one"), task("stubborn"), task("bad"), actions=actions)
    assert "undo of stubborn failed on spark-02: will not" in record.notes()
    assert "saving the logs of stubborn failed on spark-02: no file" in record.notes()
    assert "undo one spark-02" in diary.lines


def test_a_play_that_says_so_goes_on_without_the_host_that_failed(tmp_path: Path) -> None:
    text = (
        "- hosts: sparks\n"
        "  any_errors_fatal: false\n"
        "  tasks:\n"
        "    - command: sh -c 'exit {{ rank }}'\n"
        "    - name: after\n"
        "      debug: {msg: here}\n"
    )
    ended, record = play(tmp_path, text)
    assert list(record.outcomes("after")) == ["spark-01"]
    assert ended.exit_code == 2


def test_a_play_ends_when_no_host_is_left(tmp_path: Path) -> None:
    text = (
        "- hosts: sparks\n"
        "  any_errors_fatal: false\n"
        "  tasks:\n"
        "    - command: sh -c 'exit {{ rank }}'\n"
        "    - command: 'false'\n"
        "    - name: after\n"
        "      debug: {msg: here}\n"
    )
    ended, record = play(tmp_path, text)
    assert record.outcomes("after") == {}
    assert ended.exit_code == 2

"""The engine: a barrier after each task, one failure stops all, and what was done is undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.scene import Options, Scene
from sparkfleet.errors import CommandError, LockHeldError, UnreachableError
from sparkfleet.model import Change, Cluster, Host, Inventory, Status
from sparkfleet.playbook import vocabulary
from sparkfleet.playbook.engine import Ended, Engine
from sparkfleet.playbook.syntax import Block, Play, Step, Task
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.remote.link import Link
from sparkfleet.remote.local import LocalLink
from sparkfleet.remote.pool import Pool
from sparkfleet.report.events import Event, HostEnded

NAMES = ("spark-01", "spark-02")


class Listener:
    """Keeps what a run told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def handle(self, event: Event) -> None:
        self.events.append(event)

    def ended(self) -> list[tuple[str, str, Status]]:
        return [
            (event.task, event.outcome.host, event.outcome.status)
            for event in self.events
            if isinstance(event, HostEnded)
        ]


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

            def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
                diary.lines.append(f"plan {word}")
                return {name: Plan(changes=(Change(summary=word),)) for name in seen}

            def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
                diary.lines.append(f"apply {word} {link.host.name}")
                if link.host.name == fails_on:
                    raise make(error, f"{word} broke", fails_on)
                return plan

            def salvage(self, scene: Scene, link: Link) -> None:
                diary.lines.append(f"salvage {word} {link.host.name}")

            def undo(self, scene: Scene, link: Link) -> None:
                diary.lines.append(f"undo {word} {link.host.name}")

        return Noted


def make(kind: type[Exception], text: str, host: str) -> Exception:
    if issubclass(kind, CommandError | UnreachableError):
        return kind(text, host=host)
    return kind(text)


Run = Callable[..., tuple[Ended, Listener]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    def play(*steps: Step, actions: list[type[Action[Any]]], check: bool = False) -> Any:
        monkeypatch.setattr(vocabulary, "ACTIONS", {action.name: action for action in actions})
        hosts = tuple(Host(name=name) for name in NAMES)
        listener = Listener()
        with Pool(LocalLink) as pool:
            scene = Scene(
                inventory=Inventory(sources=(), hosts={}, groups={}),
                cluster=Cluster(name="test", hosts=hosts),
                recipe=Recipe(name="none", path=tmp_path),
                options=Options(check=check),
                pool=pool,
                reporter=listener,
                log_dir=tmp_path,
                run_id="1",
            )
            variables = {name: {"inventory_hostname": name} for name in NAMES}
            ended = Engine(scene, variables).run([Play(name="p", hosts="all", tasks=steps)])
        return ended, listener

    return play


def task(word: str, **more: Any) -> Task:
    return Task(name=word, action=word, **more)


def test_a_run_counts_what_each_host_did(run: Run) -> None:
    diary = Diary()
    ended, listener = run(task("one"), actions=[diary.action("one")])
    assert ended.exit_code == 0
    assert ended.recap == {name: {Status.CHANGED: 1} for name in NAMES}
    assert listener.ended() == [("one", name, Status.CHANGED) for name in NAMES]


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
    after = [line for line in diary.lines if line.startswith(("salvage", "undo"))]
    words = [line.rsplit(" ", 1)[0] for line in after]
    assert words == ["salvage two"] * 2 + ["salvage one"] * 2 + ["undo two"] * 2 + ["undo one"] * 2


def test_an_unreachable_host_is_left_alone_and_the_others_are_undone(run: Run) -> None:
    diary = Diary()
    actions = [diary.action("one", fails_on="spark-02", error=UnreachableError)]
    ended, listener = run(task("one"), actions=actions)
    assert ended.exit_code == 4
    assert ("one", "spark-02", Status.UNREACHABLE) in listener.ended()
    assert "undo one spark-01" in diary.lines
    assert "undo one spark-02" not in diary.lines


def test_rescue_clears_a_failure_and_always_runs(run: Run) -> None:
    diary = Diary()
    actions = [diary.action("bad", fails_on="spark-01"), diary.action("mend"), diary.action("tidy")]
    block = Block(name="b", block=(task("bad"),), rescue=(task("mend"),), always=(task("tidy"),))
    run(block, actions=actions)
    applied = [line.split()[1] for line in diary.lines if line.startswith("apply")]
    assert applied == ["bad", "bad", "mend", "mend", "tidy", "tidy"]
    assert not [line for line in diary.lines if line.startswith("undo")]


def test_when_chooses_hosts_and_skips_the_others(run: Run) -> None:
    diary = Diary()
    one = task("one", when=("inventory_hostname == 'spark-02'",))
    _, listener = run(one, actions=[diary.action("one")])
    assert set(listener.ended()) == {
        ("one", "spark-01", Status.SKIPPED),
        ("one", "spark-02", Status.CHANGED),
    }


def test_register_hands_an_outcome_to_later_conditions(run: Run) -> None:
    diary = Diary()
    steps = (task("one", register="first"), task("two", when=("not first.changed",)))
    run(*steps, actions=[diary.action("one"), diary.action("two")])
    assert not [line for line in diary.lines if "two" in line]


def test_a_held_lock_ends_the_run_as_itself(run: Run) -> None:
    diary = Diary()
    with pytest.raises(LockHeldError):
        run(task("one"), actions=[diary.action("one", fails_on="spark-01", error=LockHeldError)])


def test_ctrl_c_undoes_and_ends_with_130(run: Run) -> None:
    diary = Diary()

    class Impatient(Action[NoArgs]):
        name = "impatient"

        def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
            raise KeyboardInterrupt

    ended, _ = run(task("one"), task("impatient"), actions=[diary.action("one"), Impatient])
    assert ended.exit_code == 130
    assert "undo one spark-01" in diary.lines

"""Running a playbook for a task: resolve everything offline, then hand it to the engine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sparkfleet.actions.scene import Options, Scene
from sparkfleet.cli import password, unknown
from sparkfleet.cli.asked import Asked, command_line
from sparkfleet.cli.resolution import (
    Resolved,
    check_connections,
    check_passwords,
    check_tp,
    first_line,
    resolve,
)
from sparkfleet.cli.screen import say, screen
from sparkfleet.errors import PlaybookError, SparkfleetError
from sparkfleet.playbook.assignment import assign, becoming, starts, uses_cluster
from sparkfleet.playbook.engine import Ended, Engine
from sparkfleet.playbook.listing import lines, listing
from sparkfleet.playbook.parse import load as load_playbook
from sparkfleet.playbook.selection import select
from sparkfleet.playbook.syntax import Assigned
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Pool
from sparkfleet.report import json
from sparkfleet.report.events import Note, Reporter, Reporters, RunEnded, RunStopped
from sparkfleet.report.log import LogReporter, log_folder
from sparkfleet.report.text import TextReporter
from sparkfleet.resources import find, shown
from sparkfleet.resources import listing as files_of
from sparkfleet.spelling import similar


def run_playbook(name: str, asked: Asked) -> int:
    """Run the playbook `name` (shipped, or a path) and return the exit code."""
    reporter = _reporter(asked)
    try:
        path = _playbook(name)
        resolved, assigned = _prepare(path, asked)
        if asked.list_tasks or asked.list_hosts:
            return _list(assigned, asked, path)
        return _run(assigned, asked, resolved, reporter)
    except SparkfleetError as error:
        reporter.handle(_stopped(error))
        error.documented = True
        raise


def _prepare(path: Path, asked: Asked) -> tuple[Resolved, tuple[Assigned, ...]]:
    """Read all files and choose tasks and hosts; touches no host."""
    plays = select(load_playbook(path), asked.selection)
    works, begins = uses_cluster(plays), starts(plays)
    resolved = resolve(asked, works_on_cluster=works, needs_recipe=begins)
    if begins:
        options = _options(asked, resolved)
        check_tp(options.tp, resolved.recipe, pp=options.pp)
    assigned = assign(
        plays, resolved.inventory, resolved.cluster, limit=asked.limit, given=asked.given
    )
    check_connections(host for one in assigned for host in one.hosts)
    check_passwords(becoming(assigned))
    return resolved, assigned


def _stopped(error: SparkfleetError) -> RunStopped:
    return RunStopped(problems=error.problems, exit_code=error.exit_code)


def _reporter(asked: Asked) -> Reporter:
    if asked.output == "json":
        reporter: Reporter = json.JsonReporter(sys.stdout, task=asked.task, check=asked.check)
    else:
        reporter = TextReporter(screen(sys.stdout), diff=asked.diff, verbose=asked.verbose)
    if asked.junit is None:
        return reporter
    from sparkfleet.report.junit import JunitReporter  # noqa: PLC0415 - few runs write one

    return Reporters(reporter, JunitReporter(asked.junit))


def _playbook(name: str) -> Path:
    path = Path(name) if name.endswith((".yml", ".yaml")) else find("playbooks", f"{name}.yml")
    if path is None or not path.is_file():
        known = list(files_of("playbooks", ".yml"))
        raise PlaybookError(f"there is no playbook {name!r}", hint=similar(name, known))
    return path


def _list(assigned: Sequence[Assigned], asked: Asked, path: Path) -> int:
    content = listing(assigned, tasks=asked.list_tasks, hosts=asked.list_hosts)
    if asked.output == "json":
        json.write(json.document(playbook=shown(path), **content), sys.stdout)
    else:
        say(*lines(content, shown(path)))
    return 0


def _run(assigned: Sequence[Assigned], asked: Asked, resolved: Resolved, reporter: Reporter) -> int:
    options = _options(asked, resolved)
    if asked.ask_become_pass:
        options = replace(options, sudo_password=password.typed())
    run_id = time.strftime("%Y%m%d-%H%M%S") + f"-{os.getpid()}"
    folder = log_folder(run_id)
    with LogReporter(folder / "run.log") as log, Pool(open_link, forks=asked.forks) as pool:
        scene = Scene(
            inventory=resolved.inventory,
            cluster=resolved.cluster,
            recipe=resolved.recipe,
            options=options,
            given=asked.given,
            pool=pool,
            reporter=Reporters(reporter, log),
            log_dir=folder,
            run_id=run_id,
        )
        scene.tell(first_line(asked, resolved))
        try:
            return _carry_out(scene, assigned)
        except SparkfleetError as error:
            log.handle(_stopped(error))
            raise


def _carry_out(scene: Scene, assigned: Sequence[Assigned]) -> int:
    began = time.monotonic()
    works = uses_cluster([one.play for one in assigned])
    for line in unknown.told(scene.cluster).values() if works else ():
        scene.tell(Note(text=line, level="warning"))
    ended = Engine(scene).run(assigned)
    if works:
        _learn(scene, ended)
    if ended.exit_code:
        from sparkfleet.cli.causes import tell_causes  # noqa: PLC0415 - the doctor, for failures

        tell_causes(scene)
    scene.tell(
        RunEnded(
            recap=ended.recap,
            exit_code=ended.exit_code,
            seconds=time.monotonic() - began,
            answer=tuple(scene.answer) if ended.exit_code == 0 else (),
            log=str(scene.log_dir),
            phases=ended.phases,
        )
    )
    return ended.exit_code


def _learn(scene: Scene, ended: Ended) -> None:
    unknown.learn(
        scene.cluster,
        lost=ended.lost,
        answered=ended.recap,
        command=scene.options.command,
    )


def _options(asked: Asked, resolved: Resolved) -> Options:
    return Options(
        tp=len(resolved.cluster.hosts) if asked.whole else asked.tp,
        pp=asked.pp,
        check=asked.check,
        allow_degraded=asked.allow_degraded,
        lock_wait=asked.lock_wait,
        orphans=asked.orphans,
        command=command_line(),
    )

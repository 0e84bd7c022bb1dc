"""`memory_fit`: whether the model fits in the memory of every host, before anything is stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions import recipe_rules
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.launching import Launch
from sparkfleet.actions.scene import Scene
from sparkfleet.actions.stage_weights import Staged, Stocks
from sparkfleet.fit.memory import judge
from sparkfleet.fit.model import Model
from sparkfleet.fit.need import Need, need
from sparkfleet.fit.options import Start, named, start
from sparkfleet.fit.reading import model_of
from sparkfleet.fit.verdicts import verdict
from sparkfleet.launch.rooms import holders, room
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.remote.link import Link
from sparkfleet.remote.pool import Answers
from sparkfleet.weights import layout
from sparkfleet.weights.shapes import from_host


class MemoryFit(Action[NoArgs]):
    """Compare what the model takes with what every host has: refuses only what cannot fit.

    Reads the staged config.json and the headers of the tensors on the head. Where something cannot
    be told, it says so and goes on; what our own deployment holds counts as free. What already runs
    as wanted fits: nothing is read then.
    """

    name = "memory_fit"

    def look(self, scene: Scene, hosts: tuple[Host, ...]) -> Answers[Model | None]:
        """Ask the head, which has the same files as all others."""
        head = (scene.cluster.head,) if scene.recall(Launch).reason else ()
        answers = scene.pool.map(lambda link: self.inspect(scene, link), head)
        values = dict.fromkeys((host.name for host in hosts), None) | dict(answers.values)
        return Answers(values=values, errors=answers.errors)

    def inspect(self, scene: Scene, link: Link) -> Model:
        """Look at the model, and at a draft that is staged beside it."""
        asked = _start(scene)
        answer = from_host(link, scene.recall(Staged).paths[link.host.name])
        draft = _draft_folder(scene, link.host, asked)
        return model_of(answer, asked, from_host(link, draft) if draft else None)

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Judge every host by its own memory, and the recipe by what the checkpoint is."""
        model = seen[scene.cluster.head.name]
        if model is None:
            return {name: Plan(message="runs as wanted") for name in seen}
        asked = _start(scene)
        wanted = need(model, asked)
        plans = {name: _plan(scene, name, wanted, asked) for name in seen}
        head = scene.cluster.head.name
        found = (*plans[head].verdicts, *recipe_rules.staged(scene, model))
        return {**plans, head: replace(plans[head], verdicts=found)}


def _start(scene: Scene) -> Start:
    settings = scene.settings(scene.cluster.head)
    args = {**settings.mapping("vllm_args"), **named(settings.value("vllm_raw_args") or ())}
    return start(args, tp=scene.options.tp, pp=scene.options.pp)


def _draft_folder(scene: Scene, host: Host, asked: Start) -> str | None:
    """Return where a draft model of the recipe's `weights_drafts` is staged on `host`."""
    if asked.speculation is None or asked.speculation.model is None:
        return None
    root = scene.settings(host).text("weights_dir")
    for stock in scene.recall(Stocks).stocks[1:]:
        if stock.manifest.name == asked.speculation.model:
            return f"{root}/{layout.served(stock.manifest)}"
    return None


def _plan(scene: Scene, name: str, wanted: Need, asked: Start) -> Plan:
    fleet = scene.recall(Fleet)
    facts, survey = fleet.facts[name], fleet.surveys[name]
    own = room(facts, survey, scene.settings(_host(scene, name)))
    if own is None:
        return Plan(verdicts=(_unread(name),))
    fit = judge(wanted, asked, (own,))[name]
    found = verdict(fit, asked, tuple(holders(facts, survey)))
    return Plan(verdicts=(found,), message=fit.sentence)


def _host(scene: Scene, name: str) -> Host:
    return next(host for host in scene.cluster.hosts if host.name == name)


def _unread(name: str) -> Verdict:
    return Verdict(
        check="memory.fit",
        severity=Severity.INFO,
        host=name,
        subject="memory",
        expected="MemTotal and MemAvailable",
        seen="nothing: cannot tell whether the model fits",
        source="/proc/meminfo",
    )

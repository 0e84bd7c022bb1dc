"""`image`: present, the same everywhere, and with what the recipe needs inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparkfleet import links
from sparkfleet.actions import recipe_rules
from sparkfleet.actions.action import Action, Plan, arg
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.scene import Scene
from sparkfleet.errors import CommandError
from sparkfleet.launch.engines import NATIVE, kind
from sparkfleet.launch.engines.options import gpu
from sparkfleet.launch.environment import environment
from sparkfleet.launch.executor import choose
from sparkfleet.launch.images import plan as planning
from sparkfleet.launch.images import transfer
from sparkfleet.launch.images.plan import Obtain, Spread
from sparkfleet.launch.images.transfer import Node
from sparkfleet.launch.images.verdicts import inside
from sparkfleet.launch.known import known_of
from sparkfleet.launch.survey import Survey
from sparkfleet.links import Fabric
from sparkfleet.model import Change, Host, Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.report.events import Progress
from sparkfleet.weights.routes import Ends


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageArgs:
    """Which part of the way."""

    step: Literal["obtain", "spread"] = arg("obtain: some host has it; spread: all have the same")


class Image(Action[ImageArgs]):
    """Bring the image to every host, and look inside before anything is stopped.

    Additive: what serves now goes on. With everything in place it opens no channel.
    """

    name = "image"
    args_type = ImageArgs

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Plan what each host lacks; nothing for an engine without images."""
        settings = {host.name: scene.settings(host) for host in scene.cluster.hosts}
        if kind(settings[scene.cluster.head.name]) == NATIVE:
            return {name: Plan(skip=True, message="the engine is native") for name in seen}
        surveys = scene.recall(Fleet).surveys
        if self.args.step == "obtain":
            return _obtain(surveys, settings)
        return _spread(scene, surveys, settings)

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Do one host's part, and look again: only what is there then counts."""
        node = _node(scene, link.host)
        work: Obtain | Spread = plan.work

        def tell(step: transfer.Step) -> None:
            scene.tell(
                Progress(
                    host=link.host.name,
                    text=step.text,
                    done=step.done,
                    total=step.total,
                    bytes=step.bytes,
                )
            )

        if isinstance(work, Obtain):
            if work.pull:
                transfer.pull(node, tell)
            if work.build:
                transfer.build(node)
            return replace(plan, work=transfer.look(node))
        if work.source:
            source = _node(scene, _host(scene, work.source))
            transfer.copy(source, node, _ends(scene, work.source, link.host.name), tell)
        return _looked_inside(scene, node, plan)

    def settle(self, scene: Scene, plans: Mapping[str, Plan]) -> None:
        """Remember which images there are now."""
        fleet = scene.recall(Fleet)
        fresh = {name: plan.work for name, plan in plans.items() if isinstance(plan.work, Survey)}
        scene.remember(Fleet(facts=fleet.facts, surveys={**fleet.surveys, **fresh}))


def _obtain(surveys: Mapping[str, Survey], settings: Mapping[str, Settings]) -> dict[str, Plan]:
    verdicts = tuple(planning.absent(surveys, settings))
    return {
        name: Plan(
            changes=tuple(_obtaining(work, settings[name])),
            verdicts=tuple(verdict for verdict in verdicts if verdict.host == name),
            work=work if work.needed else None,
        )
        for name, work in planning.obtain(surveys, settings).items()
    }


def _obtaining(work: Obtain, settings: Settings) -> Iterator[Change]:
    image = settings.needed("engine_image")
    if work.pull:
        yield Change(summary=f"pull {image}")
    if work.build:
        packages = " ".join(map(str, settings.value("engine_pip")))
        yield Change(summary=f"build {image} with {packages}")


def _spread(
    scene: Scene, surveys: Mapping[str, Survey], settings: Mapping[str, Settings]
) -> dict[str, Plan]:
    plans = planning.spread(surveys, settings)
    verdicts: list[Verdict] = [*planning.unequal(surveys, settings)]
    verdicts += planning.space(surveys, plans)
    for host in scene.cluster.hosts:
        if not plans[host.name].source:
            verdicts += _inside(scene, host, surveys[host.name])
    return {
        name: Plan(
            changes=(Change(summary=f"copy the image from {work.source}"),) if work.source else (),
            verdicts=tuple(verdict for verdict in verdicts if verdict.host == name),
            message=_shown(surveys[name]),
            work=work if work.source or work.probe else None,
        )
        for name, work in plans.items()
    }


def _shown(survey: Survey) -> str:
    image = survey.image
    return f"{image.name} is {image.digest or f'layers {image.key}'}" if image else ""


def _looked_inside(scene: Scene, node: Node, plan: Plan) -> Plan:
    """Return the plan of a host that has the image now, with what is inside."""
    survey, host = transfer.look(node), node.link.host
    surveys = scene.recall(Fleet).surveys
    source = planning.owner(surveys)
    if survey.image is None or (source and planning.differs(survey.image, surveys[source].image)):
        raise CommandError(
            f"the image that arrived is not the one of {source}",
            host=host.name,
            hint=f"on that host: {node.cli} image ls; then run again",
        )
    if survey.image.probe is None and survey.daemon is not None:
        options = gpu(node.settings.text("engine_gpus"), survey.daemon)
        transfer.probe(node, survey.image, options)
        survey = transfer.look(node)
        plan = replace(plan, verdicts=(*plan.verdicts, *_rules(scene, host, survey)))
    verdicts = (*plan.verdicts, *_inside(scene, host, survey))
    return replace(plan, work=survey, verdicts=verdicts, message=_shown(survey))


def _rules(scene: Scene, host: Host, survey: Survey) -> tuple[Verdict, ...]:
    probe = survey.image.probe if survey.image else None
    return recipe_rules.learnt(scene, host, known_of(probe))


def _inside(scene: Scene, host: Host, survey: Survey) -> Iterator[Verdict]:
    if survey.image is None:
        return
    settings, fabric = scene.settings(host), scene.found(Fabric)
    network = links.env(fabric, host) if fabric else ()
    ours = environment(settings, network, cluster=scene.cluster.name, hf_home="")
    names = {variable.name for variable in ours}
    nodes = scene.options.nodes
    surveys = {**scene.recall(Fleet).surveys, host.name: survey}
    choice = choose(scene.settings(scene.cluster.head), surveys, nodes=nodes)
    if choice:
        yield from inside(survey.image, settings, names, nodes=nodes, executor=choice.executor)


def _node(scene: Scene, host: Host) -> Node:
    survey = scene.recall(Fleet).surveys[host.name]
    return Node(link=scene.pool.link(host), settings=scene.settings(host), survey=survey)


def _host(scene: Scene, name: str) -> Host:
    return next(host for host in scene.cluster.hosts if host.name == name)


def _ends(scene: Scene, sender: str, receiver: str) -> Ends:
    """Return the addresses of two hosts on a cable, or those at which the group meets."""
    fabric = scene.recall(Fabric)
    for rail in fabric.between(sender, receiver):
        for other in fabric.between(receiver, sender):
            if other.network == rail.network:
                return Ends(sender=str(rail.ip), receiver=str(other.ip))
    return Ends(sender=str(fabric.address(sender)), receiver=str(fabric.address(receiver)))

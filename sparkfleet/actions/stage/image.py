"""`image`: make the image available and identical on all hosts, and check its contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparkfleet import links
from sparkfleet.actions.action import Action, Plan, arg
from sparkfleet.actions.check import recipe_rules
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.actions.stage.transfer_times import format_link_time
from sparkfleet.errors import CommandError
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.deployment.executor import select_executor
from sparkfleet.launch.engines.docker_options import build_gpu_options
from sparkfleet.launch.host.engine_kind import NATIVE, read_engine_kind
from sparkfleet.launch.host.installed_vllm import summarize_probe
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.images import plan as planning
from sparkfleet.launch.images import transfer
from sparkfleet.launch.images.checks import (
    check_image_architecture,
    check_image_contents,
    check_image_driver,
)
from sparkfleet.launch.images.plan import AcquirePlan, DistributePlan
from sparkfleet.launch.images.transfer import ImageHost
from sparkfleet.model import Change, Host, Verdict
from sparkfleet.quantities import format_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Progress
from sparkfleet.weights.transfer.routes import Ends


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageArgs:
    """The step of the distribution."""

    step: Literal["obtain", "spread"] = arg(
        "obtain: get it on one host; spread: copy it to all hosts"
    )


class StageImage(Action[ImageArgs]):
    """Distribute the image to every host, and inspect its contents before anything is stopped.

    Additive: a running deployment is not touched. With everything in place, nothing is sent.
    """

    name = "image"
    requires = ("facts", "surveys")
    requires_in_group = ("fabric",)  # the addresses for copies
    updates = ("surveys",)
    args_type = ImageArgs

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Plan what each host needs; nothing for an engine without images."""
        settings = {host.name: run.settings(host) for host in run.cluster.hosts}
        if read_engine_kind(settings[run.cluster.head.name]) == NATIVE:
            return {name: Plan(skip=True, message="the engine is native") for name in inspected}
        surveys = run.surveys
        if self.args.step == "obtain":
            return _plan_obtain(surveys, settings)
        return _plan_spread(run, surveys, settings)

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Do one host's part, and inspect its images again."""
        node = _build_transfer_node(run, connection.host)
        work: AcquirePlan | DistributePlan = plan.work

        def report(step: transfer.ImageProgress) -> None:
            run.report(
                Progress(
                    host=connection.host.name,
                    text=step.text,
                    done=step.done,
                    total=step.total,
                    bytes=step.bytes,
                )
            )

        if isinstance(work, AcquirePlan):
            if work.pull:
                transfer.repeat_after_loss(lambda: transfer.pull_image(node, report), node)
            if work.build:
                transfer.repeat_after_loss(lambda: transfer.build_image(node), node)
            return replace(plan, work=transfer.inspect_images(node))
        if work.source:
            source = _build_transfer_node(run, _find_source_host(run, work.source))
            ends = _find_transfer_ends(run, work.source, connection.host.name)
            transfer.repeat_after_loss(
                lambda: transfer.copy_image(source, node, ends, report), node, source
            )
        return _inspect_copied_image(run, node, plan)

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
        """Provide the surveys with the images that the hosts have now."""
        fresh = {name: plan.work for name, plan in plans.items() if isinstance(plan.work, Survey)}
        return RunState(surveys={**run.surveys, **fresh})


def _plan_obtain(
    surveys: Mapping[str, Survey], settings: Mapping[str, Settings]
) -> dict[str, Plan]:
    verdicts = tuple(planning.check_missing_images(surveys, settings))
    return {
        name: Plan(
            changes=tuple(_obtain_changes(work, settings[name])),
            verdicts=tuple(verdict for verdict in verdicts if verdict.host == name),
            work=work if work.needed else None,
        )
        for name, work in planning.plan_acquisition(surveys, settings).items()
    }


def _obtain_changes(work: AcquirePlan, settings: Settings) -> Iterator[Change]:
    image = settings.needed("engine_image")
    if work.pull:
        yield Change(summary=f"pull {image}; its size is unknown until the registry has answered")
    if work.build:
        packages = " ".join(map(str, settings.value("engine_pip")))
        yield Change(summary=f"build {image} with {packages}")


def _plan_spread(
    run: RunContext, surveys: Mapping[str, Survey], settings: Mapping[str, Settings]
) -> dict[str, Plan]:
    plans = planning.plan_distribution(surveys, settings)
    verdicts: list[Verdict] = [*planning.check_unequal_images(surveys, settings)]
    verdicts += planning.check_image_space(surveys, plans)
    for host in run.cluster.hosts:
        if not plans[host.name].source:
            verdicts += _check_image_content(run, host, surveys[host.name])
    return {
        name: Plan(
            changes=tuple(_list_copies(run, work)),
            verdicts=tuple(verdict for verdict in verdicts if verdict.host == name),
            message=_format_image(surveys[name]),
            work=work if work.source or work.probe else None,
        )
        for name, work in plans.items()
    }


def _list_copies(run: RunContext, work: DistributePlan) -> Iterator[Change]:
    """Yield the copy of the image to a host, with its size and its least time."""
    if work.source and (image := run.surveys[work.source].image):
        time = format_link_time(image.size, run.state.cable_gbps)
        yield Change(
            summary=f"copy the image from {work.source}: {format_size(image.size)}; {time}"
        )


def _format_image(survey: Survey) -> str:
    image = survey.image
    return f"{image.name} is {image.digest or f'layers {image.key}'}" if image else ""


def _inspect_copied_image(run: RunContext, node: ImageHost, plan: Plan) -> Plan:
    """Return the plan of a host that has the image now, with the image's contents."""
    survey = transfer.inspect_images(node)
    host = node.connection.host
    source = planning.find_image_owner(run.surveys)
    if survey.image is None or (
        source and planning.is_different_image(survey.image, run.surveys[source].image)
    ):
        raise CommandError(
            f"the copied image differs from the image on {source}",
            host=host.name,
            hint=f"compare the output of `{node.cli} image ls` on both hosts, then run again",
        )
    if wrong := tuple(_check_architecture(run, host, survey)):
        return replace(plan, work=survey, verdicts=(*plan.verdicts, *wrong))
    if survey.image.probe is None and survey.daemon is not None:
        options = build_gpu_options(node.settings.text("engine_gpus"), survey.daemon)
        transfer.probe_image(node, survey.image, options)
        survey = transfer.inspect_images(node)
        plan = replace(plan, verdicts=(*plan.verdicts, *_check_image_rules(run, host, survey)))
    verdicts = (*plan.verdicts, *_check_image_content(run, host, survey))
    return replace(plan, work=survey, verdicts=verdicts, message=_format_image(survey))


def _check_image_rules(run: RunContext, host: Host, survey: Survey) -> tuple[Verdict, ...]:
    probe = survey.image.probe if survey.image else None
    return recipe_rules.check_learned_rules(run, host, summarize_probe(probe))


def _check_image_content(run: RunContext, host: Host, survey: Survey) -> Iterator[Verdict]:
    if survey.image is None:
        return
    yield from _check_architecture(run, host, survey)
    settings = run.settings(host)
    yield from check_image_driver(survey.image, settings, run.facts[host.name].driver)
    fabric = run.state.fabric
    network = links.compute_rank_env(fabric, host) if fabric else ()
    variables = build_rank_environment(settings, network, cluster=run.cluster.name, hf_home="")
    names = {variable.name for variable in variables}
    nodes = run.options.nodes
    surveys = {**run.surveys, host.name: survey}
    choice = select_executor(
        run.settings(run.cluster.head), surveys, nodes=nodes, copies=run.options.dp
    )
    if choice:
        yield from check_image_contents(
            survey.image, settings, names, nodes=nodes, executor=choice.executor
        )


def _check_architecture(run: RunContext, host: Host, survey: Survey) -> Iterator[Verdict]:
    if survey.image is not None:
        machine = run.facts[host.name].system.architecture
        yield from check_image_architecture(survey.image, run.settings(host), machine)


def _build_transfer_node(run: RunContext, host: Host) -> ImageHost:
    return ImageHost(
        connection=run.pool.connect(host),
        settings=run.settings(host),
        survey=run.surveys[host.name],
    )


def _find_source_host(run: RunContext, name: str) -> Host:
    return next(host for host in run.cluster.hosts if host.name == name)


def _find_transfer_ends(run: RunContext, sender: str, receiver: str) -> Ends:
    """Return the addresses of two hosts on one cable, or else their addresses in the group."""
    fabric = run.fabric
    if pair := fabric.find_pair(sender, receiver):
        return Ends(sender=str(pair[0].ip), receiver=str(pair[1].ip))
    return Ends(sender=str(fabric.address(sender)), receiver=str(fabric.address(receiver)))

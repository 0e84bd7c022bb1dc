"""`image`: make the image available and identical on all hosts, and check its contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparkfleet.actions.action import Action, Plan, arg
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.actions.stage.fabric_routes import find_transfer_ends
from sparkfleet.actions.stage.image_contents import (
    check_host_image,
    format_image,
    inspect_copied_image,
)
from sparkfleet.actions.stage.transfer_times import format_link_time
from sparkfleet.launch.host.engine_kind import NATIVE, read_engine_kind
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.images import checks, transfer
from sparkfleet.launch.images import plan as planning
from sparkfleet.launch.images.plan import AcquirePlan, DistributePlan
from sparkfleet.launch.images.transfer import ImageHost
from sparkfleet.model import Change, Host, Verdict
from sparkfleet.quantities import format_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Progress


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
    needs_recipe = True
    requires = ("facts", "surveys")
    requires_in_group = ("fabric",)  # the addresses for copies
    uses = ("cable_gbps",)
    after = ("recover",)  # which inspects its hosts again, without their images
    updates = ("surveys",)
    args_type = ImageArgs
    order = ("step", ("obtain", "spread"))

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
            source = _build_transfer_node(run, run.cluster.find_host(work.source))
            ends = find_transfer_ends(run, work.source, connection.host.name)
            transfer.repeat_after_loss(
                lambda: transfer.copy_image(source, node, ends, report), node, source
            )
        return inspect_copied_image(run, node, plan)

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
        """Provide the surveys with the images that the hosts have now."""
        fresh = {name: plan.work for name, plan in plans.items() if isinstance(plan.work, Survey)}
        return RunState(surveys={**run.surveys, **fresh})


def _plan_obtain(
    surveys: Mapping[str, Survey], settings: Mapping[str, Settings]
) -> dict[str, Plan]:
    verdicts = tuple(checks.check_missing_images(surveys, settings))
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
    verdicts: list[Verdict] = [*checks.check_unequal_images(surveys, settings)]
    verdicts += checks.check_image_space(surveys, plans)
    for host in run.cluster.hosts:
        if not plans[host.name].source:
            verdicts += check_host_image(run, host, surveys[host.name])
    return {
        name: Plan(
            changes=tuple(_list_copies(run, work)),
            verdicts=tuple(verdict for verdict in verdicts if verdict.host == name),
            message=format_image(surveys[name]),
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


def _build_transfer_node(run: RunContext, host: Host) -> ImageHost:
    return ImageHost(
        connection=run.pool.connect(host),
        settings=run.settings(host),
        survey=run.surveys[host.name],
    )

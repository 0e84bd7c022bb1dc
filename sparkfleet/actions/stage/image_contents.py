"""Checks of what is inside the image, against the host that runs it and the settings of the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sparkfleet import links
from sparkfleet.actions.action import Plan
from sparkfleet.actions.check import recipe_rules
from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import CommandError
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.deployment.executor import select_executor
from sparkfleet.launch.engines.docker_options import build_gpu_options
from sparkfleet.launch.host.installed_vllm import summarize_probe
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.images import plan as planning
from sparkfleet.launch.images import transfer
from sparkfleet.launch.images.checks import (
    check_image_architecture,
    check_image_contents,
    check_image_driver,
)
from sparkfleet.launch.images.transfer import ImageHost
from sparkfleet.model import Host, Verdict


def check_image_rules(run: RunContext, host: Host, survey: Survey) -> tuple[Verdict, ...]:
    """Return the verdicts of the rules that only the vLLM in the image can answer."""
    probe = survey.image.probe if survey.image else None
    return recipe_rules.check_learned_rules(run, host, summarize_probe(probe))


def check_host_image(run: RunContext, host: Host, survey: Survey) -> Iterator[Verdict]:
    """Yield what does not fit: architecture, driver, and what vLLM in the image lacks."""
    if survey.image is None:
        return
    yield from check_host_architecture(run, host, survey)
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


def check_host_architecture(run: RunContext, host: Host, survey: Survey) -> Iterator[Verdict]:
    """Yield a verdict where the image is of another architecture than the host."""
    if survey.image is not None:
        machine = run.facts[host.name].system.architecture
        yield from check_image_architecture(survey.image, run.settings(host), machine)


def inspect_copied_image(run: RunContext, node: ImageHost, plan: Plan) -> Plan:
    """Return the plan of a host that has the image now, with the image's contents."""
    survey = transfer.inspect_images(node)
    host = node.connection.host
    source = planning.find_image_owner(run.surveys)
    if source is None and survey.image is None:
        raise CommandError(
            "no host has the image, so it cannot be copied",
            host=host.name,
            hint="add the task `image: {step: obtain}` before this one",
        )
    if survey.image is None or (
        source and planning.is_different_image(survey.image, run.surveys[source].image)
    ):
        raise CommandError(
            f"the copied image differs from the image on {source}",
            host=host.name,
            hint=f"compare the output of `{node.cli} image ls` on both hosts, then run again",
        )
    if wrong := tuple(check_host_architecture(run, host, survey)):
        return replace(plan, work=survey, verdicts=(*plan.verdicts, *wrong))
    if survey.image.probe is None and survey.daemon is not None:
        options = build_gpu_options(node.settings.text("engine_gpus"), survey.daemon)
        transfer.probe_image(node, survey.image, options)
        survey = transfer.inspect_images(node)
        plan = replace(plan, verdicts=(*plan.verdicts, *check_image_rules(run, host, survey)))
    verdicts = (*plan.verdicts, *check_host_image(run, host, survey))
    return replace(plan, work=survey, verdicts=verdicts, message=format_image(survey))


def format_image(survey: Survey) -> str:
    """Return the name and the digest of the image of a host; "" where it has none."""
    image = survey.image
    return f"{image.name} is {image.digest or f'layers {image.key}'}" if image else ""

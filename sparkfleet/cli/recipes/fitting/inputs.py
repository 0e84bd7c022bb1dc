"""The inputs of `recipes.fit`: a local folder, the hosts, or the Hub; none unless asked."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet.cli.context import open_pool
from sparkfleet.cli.recipes.fitting.values import Answer, FitInputs, FitRequest
from sparkfleet.fit import measured_speeds
from sparkfleet.fit.checkpoint import build_model_profile
from sparkfleet.fit.cost_model import (
    PUBLISHED,
    CostModel,
    calibrate_cost_model,
    parse_allreduce_latency,
)
from sparkfleet.fit.memory import IDLE, NodeMemory
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.weights import estimate_figure_weights
from sparkfleet.model import Cluster, Host
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection

ASSUMED = f"memory: assumed; an idle Spark has {IDLE >> 30} GiB of 121.6 available"
UNREAD = (
    "the model's files were not read; to read them: --folder PATH, --staged (on the hosts) or --hub"
)


def collect_fit_inputs(
    cluster: Cluster, settings: Settings, request: FitRequest, start_options: ServeOptions
) -> FitInputs:
    """Read what `request` names; raises InputError, HubError and the errors of hosts."""
    if request.staged:
        return _inspect_hosts(cluster, request, start_options)
    answer, draft, note = _read_model_shape(settings, request, start_options)
    host_memory = tuple(assume_idle_memory(host) for host in cluster.hosts)
    return FitInputs(
        answer=answer, draft=draft, host_memory=host_memory, terms=None, notes=(note, ASSUMED)
    )


def assume_idle_memory(host: Host) -> NodeMemory:
    """Return the memory of an idle Spark, less what the host's settings keep for others."""
    settings = Settings(host=host)
    reserve = settings.value("vllm_memory_reserve")
    kept = settings.size("vllm_memory_reserve") if reserve is not None else 0
    return NodeMemory(host=host.name, available=IDLE, kept=kept)


def _read_model_shape(
    settings: Settings, request: FitRequest, start_options: ServeOptions
) -> tuple[Answer | None, Answer | None, str]:
    from sparkfleet.weights import shapes  # noqa: PLC0415 - the Hub's library, only where needed

    model = settings.text("vllm_model")
    revision = settings.text("weights_revision")
    draft = start_options.speculation.model if start_options.speculation else None
    if request.hub:
        answer = shapes.fetch_hub_shape(model, revision)
        draft_answer = None
        if draft and _is_hub_name(draft):
            draft_answer = shapes.fetch_hub_shape(draft, "main")
        return answer, draft_answer, "read: the Hub"
    folder = request.folder or shapes.find_weights_source(settings)
    if folder is None:
        return None, None, UNREAD
    return shapes.read_folder_shape(folder), None, f"read: {folder}"


def _is_hub_name(name: str) -> bool:
    return name.count("/") == 1 and not name.startswith(("/", "."))


def _inspect_hosts(cluster: Cluster, request: FitRequest, start_options: ServeOptions) -> FitInputs:
    """Read the memory of every host, and the model from the head."""
    with open_pool(request.options) as pool:
        answers = pool.map(lambda connection: _query_host(connection, cluster), cluster.hosts).all()
        head = pool.connect(cluster.head)
        answer, draft = _read_staged_model(head, start_options)
    host_memory = tuple(memory for memory, *_ in answers.values() if memory is not None)
    terms = _adjust_terms(*answers[cluster.head.name][1:], start_options)
    unread = [
        f"{name}: /proc/meminfo cannot be read" for name, reply in answers.items() if not reply[0]
    ]
    notes = (f"read: staged on {cluster.head.name}", *unread)
    return FitInputs(answer=answer, draft=draft, host_memory=host_memory, terms=terms, notes=notes)


def _query_host(connection: Connection, cluster: Cluster) -> tuple[NodeMemory | None, str, str]:
    """Return a host's memory, the receipt of a collective, and what `serve.bench` measured."""
    from sparkfleet import facts  # noqa: PLC0415 - only where hosts are asked
    from sparkfleet.launch.host.survey import survey_host  # noqa: PLC0415 - the same
    from sparkfleet.launch.preflight.available_memory import compute_available_memory  # noqa: PLC0415 - the same
    from sparkfleet.links import receipt  # noqa: PLC0415 - the same

    settings = Settings(host=connection.host)
    of_links, of_collective = (
        receipt.build_receipt_path(settings.cluster_dir, cluster.name, name)
        for name in (receipt.FILE, receipt.COLLECTIVE_FILE)
    )
    of_bench = measured_speeds.format_speeds_path(settings.cluster_dir, cluster.name)
    host_facts = facts.gather_facts(
        connection, files=[of_links, of_collective, of_bench], fabric=False
    )
    memory = compute_available_memory(
        host_facts, survey_host(connection, settings, cluster.name), settings
    )
    measured = host_facts.read(of_collective).text or host_facts.read(of_links).text
    return memory, measured, host_facts.read(of_bench).text


def _read_staged_model(
    connection: Connection, start_options: ServeOptions
) -> tuple[Answer, Answer | None]:
    from sparkfleet.weights import shapes  # noqa: PLC0415 - only where hosts are asked

    settings = Settings(host=connection.host)
    root = settings.text("weights_dir")
    model = settings.needed("vllm_model")
    answer = shapes.fetch_staged_shape(connection, root, model, settings.text("weights_revision"))
    name = start_options.speculation.model if start_options.speculation else None
    return answer, shapes.fetch_staged_shape(
        connection, root, name, "main"
    ) if name and _is_hub_name(name) else None


def _adjust_terms(receipt: str, measured: str, start_options: ServeOptions) -> CostModel:
    """Return the published terms, moved to what a collective and `serve.bench` measured here."""
    terms = PUBLISHED
    reduce = parse_allreduce_latency(receipt, start_options.nodes)
    if reduce is not None:
        source = f"{terms.source}, measured all-reduce"
        terms = replace(terms, reduce=reduce, source=source)
    samples = [measurement.sample for measurement in measured_speeds.parse_measurements(measured)]
    return calibrate_cost_model(samples, terms) if samples else terms


def build_recipe_model(
    recipe: Recipe, inputs: FitInputs, start_options: ServeOptions
) -> ModelProfile:
    """Return the model from its files, or its weights from the figures of the recipe."""
    model = (
        ModelProfile()
        if inputs.answer is None
        else build_model_profile(inputs.answer, start_options, inputs.draft)
    )
    figures = recipe.checkpoint
    if model.weights is not None or figures is None or figures.size is None:
        return model
    active = figures.parameters if figures.moe is False else figures.active
    weights = estimate_figure_weights(
        figures.size, figures.parameters, active, start_options.online
    )
    return replace(model, weights=weights)

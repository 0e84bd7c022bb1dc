"""`recipes.suggest`: recipes for a purpose on the Sparks of an inventory, in one table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sparkfleet.cli.recipes.fitting.inventory_fit import (
    judge_size,
    list_sizes,
    select_inventory_hosts,
)
from sparkfleet.cli.recipes.fitting.sized_fit import RecipeFit
from sparkfleet.cli.recipes.list import PIPE_WIDTH, align_columns
from sparkfleet.cli.recipes.options import SuggestOptions
from sparkfleet.cli.recipes.purposes import (
    PURPOSES,
    Purpose,
    find_seeing_models,
    read_context,
    read_options,
)
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.command_name import name_command
from sparkfleet.fit.measured_speeds import MeasuredStep
from sparkfleet.model import Host
from sparkfleet.recipes.recipe import FOLDER, Recipe, load_recipe
from sparkfleet.resources import list_data_files

NOT_MEASURED = "not measured"
NOT_POSSIBLE = "-"
COPIES = 2
LAB = "lab-tiny"  # the lab's model; never suggested
LEGEND = (
    "Tokens a second; at 8: of 8 requests together. Published by a source",
    "({show} NAME), or measured here by serve.bench (--measured).",
    "The sources measured under different loads.",
)
AT_ONE_ADDRESS = "Two copies at one address: {up} --dp 2 --recipe NAME."
APART = (
    "*: as two clusters of one Spark each, each started by --solo. With --dp vLLM",
    "divides the experts of a model over both, and some images accept no options.",
)
STAR = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedFigure:
    """Tokens a second of `requests` together on `nodes` Sparks, and who measured it."""

    nodes: int
    decode: float
    requests: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChoice:
    """One way to serve a recipe: its options of a start, and all its tokens a second together.

    `rate` is None where no one measured it.
    """

    options: str
    rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A recipe for the purpose: the sizes at which it fits, or may fit, and a figure of each."""

    recipe: Recipe
    context: int
    sizes: tuple[int, ...]
    figures: tuple[SpeedFigure, ...]

    def find_figure(self, nodes: int) -> SpeedFigure | None:
        """Return the figure for so many Sparks, None where no one measured it."""
        return next((figure for figure in self.figures if figure.nodes == nodes), None)

    @property
    def has_copies(self) -> bool:
        """Whether --dp serves copies of one Spark each that do not need each other.

        vLLM divides the experts of a mixture over all copies, and an image with a program of its
        own takes no options.
        """
        program = self.recipe.vars.get("engine_program")
        own = program is not None and program.data == "image"
        checkpoint = self.recipe.checkpoint
        return 1 in self.sizes and checkpoint is not None and checkpoint.moe is False and not own

    def list_starts(self, count: int, *, copies: bool) -> list[StartChoice]:
        """Return the ways to serve it on up to `count` Sparks, the smallest first."""
        starts = []
        for size in self.sizes:
            figure = self.find_figure(size)
            words = f"--tp {size}" if size > 1 else "--solo"
            starts.append(StartChoice(options=words, rate=figure.decode if figure else None))
        if copies and count >= COPIES and self.has_copies:
            alone = self.find_figure(1)
            rate = COPIES * alone.decode if alone else None
            starts.append(StartChoice(options=f"--dp {COPIES}", rate=rate))
        return starts

    def choose_start(self, count: int, *, copies: bool) -> StartChoice:
        """Return the way with the best figure, else the smallest; copies help many requests."""
        starts = self.list_starts(count, copies=copies)
        return max(starts, key=lambda start: start.rate or 0.0)


def show_suggestions(options: SuggestOptions) -> int:
    """Print the candidates for the purpose with the command for each; 2 where there are none."""
    purpose = PURPOSES[options.purpose]
    hosts = select_inventory_hosts(options)
    measured = _read_measurements(options) if options.measured else ()
    candidates = _rank_candidates(_list_candidates(purpose, hosts, measured), purpose, len(hosts))
    shown = candidates[: options.most]
    if options.json:
        print_document(
            purpose=options.purpose,
            hosts=[host.name for host in hosts],
            candidates=[
                _serialize_candidate(candidate, purpose, len(hosts)) for candidate in shown
            ],
        )
    else:
        print_lines(*_format_suggestions(shown, len(candidates), purpose, hosts))
    return 0 if shown else 2


def _list_candidates(
    purpose: Purpose, hosts: Sequence[Host], measured: Sequence[MeasuredStep]
) -> list[Candidate]:
    recipes = [load_recipe(name) for name in list_data_files(FOLDER, ".yml") if name != LAB]
    seeing = find_seeing_models(recipes)
    candidates = []
    for recipe in recipes:
        options = read_options(recipe)
        if not purpose.accepts(recipe, options, seeing):
            continue
        sizes = tuple(
            size
            for size in list_sizes(recipe, len(hosts))
            if judge_size(recipe, hosts, size).fit is not RecipeFit.NOT
        )
        if sizes:
            figures = _choose_figures(recipe, sizes, purpose, measured)
            context = read_context(options)
            candidates.append(
                Candidate(recipe=recipe, context=context, sizes=sizes, figures=figures)
            )
    return candidates


def _choose_figures(
    recipe: Recipe, sizes: Sequence[int], purpose: Purpose, measured: Sequence[MeasuredStep]
) -> tuple[SpeedFigure, ...]:
    """Return the best figure of each size: measured here, else published."""
    figures = []
    for size in sizes:
        here = [
            _build_measured_figure(step)
            for step in measured
            if step.recipe == recipe.name and step.nodes == size
        ]
        published = [
            SpeedFigure(
                nodes=size, decode=speed.decode, requests=speed.requests, source=speed.source
            )
            for speed in recipe.speeds
            if speed.decode and speed.nodes == size
        ]
        for found in (here, published):
            if not purpose.counts_all:
                found[:] = [figure for figure in found if figure.requests == 1]
        chosen = here or published
        if chosen:
            figures.append(max(chosen, key=lambda figure: figure.decode))
    return tuple(figures)


def _build_measured_figure(step: MeasuredStep) -> SpeedFigure:
    return SpeedFigure(
        nodes=step.nodes,
        decode=step.requests / step.sample.seconds,
        requests=step.requests,
        source=f"serve.bench here, {step.at}",
    )


def _read_measurements(options: SuggestOptions) -> tuple[MeasuredStep, ...]:
    """Return what serve.bench measured on the cluster, from its head."""
    from sparkfleet import facts  # noqa: PLC0415 - only where the head is asked
    from sparkfleet.cli.context import open_pool, resolve_context  # noqa: PLC0415 - the same
    from sparkfleet.fit import measured_speeds  # noqa: PLC0415 - the same
    from sparkfleet.recipes.settings import Settings  # noqa: PLC0415 - the same

    cluster = resolve_context(options, needs_recipe=False).cluster
    settings = Settings(host=cluster.head)
    path = measured_speeds.format_speeds_path(settings.cluster_dir, cluster.name)
    with open_pool(options) as pool:
        gathered = facts.gather_facts(pool.connect(cluster.head), files=[path], fabric=False)
    return measured_speeds.parse_measurements(gathered.read(path).text)


def _rank_candidates(
    candidates: Sequence[Candidate], purpose: Purpose, count: int
) -> list[Candidate]:
    def rank(candidate: Candidate) -> tuple[Any, ...]:
        speed = candidate.choose_start(count, copies=purpose.counts_all).rate or 0.0
        if purpose.first == "newest":
            return (speed > 0, candidate.recipe.date[:7], speed)
        if purpose.first == "longest":
            return (candidate.context, speed, candidate.recipe.date)
        return (speed, candidate.recipe.date)

    return sorted(candidates, key=rank, reverse=True)


def _format_suggestions(
    shown: Sequence[Candidate], count: int, purpose: Purpose, hosts: Sequence[Host]
) -> Iterator[str]:
    sparks = f"{len(hosts)} Spark" + ("s" if len(hosts) > 1 else "")
    yield f"{sparks} ({', '.join(host.name for host in hosts)}): {purpose.asks}"
    if not shown:
        yield f"no recipe fits; {name_command('recipes.list')} shows all"
        return
    sizes = sorted({size for candidate in shown for size in candidate.sizes} - {1})
    rows = [_build_cells(candidate, sizes, len(hosts)) for candidate in shown]
    head = {key: key for key in rows[0]}
    for lines in align_columns([head, *rows], shutil.get_terminal_size((PIPE_WIDTH, 0)).columns):
        yield from lines
    if count > len(shown):
        yield f"{count - len(shown)} more: --most {count}"
    yield from _format_legend(shown, len(hosts))
    yield "type:"
    for candidate in shown:
        yield f"  {_format_command(candidate, purpose, len(hosts))}"


def _format_legend(shown: Sequence[Candidate], count: int) -> Iterator[str]:
    yield from (line.format(show=name_command("recipes.show")) for line in LEGEND)
    if count >= COPIES and any(candidate.has_copies for candidate in shown):
        yield AT_ONE_ADDRESS.format(up=name_command("cluster.up"))
    if count >= COPIES and any(
        1 in candidate.sizes and not candidate.has_copies for candidate in shown
    ):
        yield from APART


def _build_cells(candidate: Candidate, sizes: Sequence[int], count: int) -> dict[str, str]:
    cells = {
        "recipe": candidate.recipe.name,
        "context": _format_context(candidate.context),
        "solo": _format_figure(candidate, 1),
    }
    if count >= COPIES:
        alone = candidate.find_figure(1)
        copies = f"{COPIES} x {_format_decode(alone)}" if alone else _format_figure(candidate, 1)
        apart = 1 in candidate.sizes and not candidate.has_copies
        cells["two copies"] = copies + STAR * apart
    return cells | {f"TP={size}": _format_figure(candidate, size) for size in sizes}


def _format_figure(candidate: Candidate, nodes: int) -> str:
    if nodes not in candidate.sizes:
        return NOT_POSSIBLE
    figure = candidate.find_figure(nodes)
    return NOT_MEASURED if figure is None else _format_decode(figure)


def _format_decode(figure: SpeedFigure) -> str:
    together = f" at {figure.requests}" if figure.requests > 1 else ""
    return f"{figure.decode:.4g}{together}"


def _format_context(tokens: int) -> str:
    return f"{tokens // 1024}K" if tokens else "auto"


def _format_command(candidate: Candidate, purpose: Purpose, count: int) -> str:
    start = candidate.choose_start(count, copies=purpose.counts_all)
    return _format_start(candidate, start)


def _format_start(candidate: Candidate, start: StartChoice) -> str:
    return f"{name_command('cluster.up')} {start.options} --recipe {candidate.recipe.name}"


def _serialize_candidate(candidate: Candidate, purpose: Purpose, count: int) -> dict[str, Any]:
    return {
        "recipe": candidate.recipe.name,
        "context": candidate.context or None,
        "sizes": list(candidate.sizes),
        "figures": [asdict(figure) for figure in candidate.figures],
        "command": _format_command(candidate, purpose, count),
        "starts": [
            {"command": _format_start(candidate, start), "decode": start.rate}
            for start in candidate.list_starts(count, copies=True)
        ],
    }

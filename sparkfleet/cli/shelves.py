"""Looking at the weights of every node: `weights.verify`, `.plan`, `.list` and `.prune`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.console import Console
from rich.table import Table

from sparkfleet.cli.asked import Asked
from sparkfleet.cli.inspection import exit_code
from sparkfleet.cli.resolution import Resolved, resolve
from sparkfleet.errors import UsageError
from sparkfleet.launch.survey import ask_survey
from sparkfleet.model import Severity, Verdict
from sparkfleet.quantities import show_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Answers, Pool, T
from sparkfleet.spelling import did_you_mean
from sparkfleet.weights import shelf, stage
from sparkfleet.weights.inspection import Inspection, inspect
from sparkfleet.weights.shelf import Model
from sparkfleet.weights.wanted import Stock, stocks_of

MARKS = {Severity.OK: "green", Severity.WARNING: "magenta", Severity.ERROR: "red"}


def show_verdicts(asked: Asked, *, full: bool) -> int:
    """Print what every node holds of the recipe; return 2 where something is wrong."""
    resolved = resolve(asked)
    stocks = stocks_of(Settings(host=resolved.cluster.head))

    def prove(link: Link) -> list[Verdict]:
        verdicts: list[Verdict] = []
        for one in stocks:
            verdicts += stage.verify(link, one.manifest, _root(link), full=full)
        return verdicts

    answers = _everywhere(resolved, asked, prove)
    console = _console()
    for verdicts in answers.values.values():
        for verdict in verdicts:
            console.print(f"{verdict.severity}: {verdict}", style=MARKS.get(verdict.severity, ""))
    _tell_errors(console, answers)
    refused = any(verdict.refuses for found in answers.values.values() for verdict in found)
    return exit_code(answers.errors) or (2 if refused else 0)


def show_plans(asked: Asked) -> int:
    """Print what each node lacks of the recipe; return 2 where something stands in the way."""
    resolved = resolve(asked)
    stocks = stocks_of(Settings(host=resolved.cluster.head))

    def look(link: Link) -> list[Inspection]:
        return [inspect(link, one.manifest, _root(link), record=False) for one in stocks]

    answers = _everywhere(resolved, asked, look)
    console = _console()
    table = Table("host", "model", "has", "lacks", "in the way", box=None)
    blocked = False
    for at, one in enumerate(stocks):
        found = {name: inspections[at] for name, inspections in answers.values.items()}
        blocked |= _add_plans(table, one, found)
    console.print(table)
    _tell_errors(console, answers)
    return exit_code(answers.errors) or (2 if blocked else 0)


def _add_plans(table: Table, one: Stock, found: Mapping[str, Inspection]) -> bool:
    blocked = False
    for name, plan in stage.plan(one.manifest, found).items():
        bad = [verdict for verdict in plan.verdicts if verdict.refuses]
        blocked |= bool(bad)
        lacks = f"{len(plan.sends)} files, {show_size(plan.size)}" if plan.sends else "nothing"
        has = show_size(one.manifest.size - plan.size)
        table.add_row(name, one.manifest.name, has, lacks, "; ".join(str(v) for v in bad))
    return blocked


def show_models(asked: Asked) -> int:
    """Print the models of every node."""
    resolved = resolve(asked, needs_recipe=False)
    answers = _everywhere(resolved, asked, lambda link: shelf.models(link, _root(link)))
    table = Table("host", "model", "size", "files", "state", box=None)
    for name, models in answers.values.items():
        for model in models:
            table.add_row(name, model.name, show_size(model.bytes), str(model.files), _state(model))
    console = _console()
    console.print(table)
    _tell_errors(console, answers)
    return exit_code(answers.errors)


def _state(model: Model) -> str:
    if model.partial:
        return f"{model.partial} downloads not ended"
    return "staged by sparkfleet" if model.staged else "not ours"


def prune_model(asked: Asked, name: str, *, yes: bool) -> int:
    """Remove the model `name` from every node that has it, or show what would go."""
    resolved = resolve(asked, needs_recipe=False)
    known: set[str] = set()

    def find(link: Link) -> Model | None:
        models = shelf.models(link, _root(link))
        known.update(model.name for model in models)
        found = next((one for one in models if one.name == name), None)
        if found is not None:
            _refuse_served(link, resolved, name)
        return found

    console = _console()
    with Pool(open_link, forks=asked.forks) as pool:
        holders = pool.map(find, resolved.cluster.hosts).all()
        having = [host for host in resolved.cluster.hosts if holders[host.name] is not None]
        if not having:
            raise _unknown_model(name, known)
        if not yes:
            _show_prune(console, name, {host.name: holders[host.name] for host in having})
            return 0
        removed = pool.map(lambda link: _remove(link, holders[link.host.name]), having)
    for host_name, text in removed.values.items():
        console.print(f"{host_name}: {text}")
    _tell_errors(console, removed)
    return exit_code(removed.errors)


def _show_prune(console: Console, name: str, holders: Mapping[str, Model | None]) -> None:
    for host, model in holders.items():
        size = show_size(getattr(model, "bytes", 0))
        console.print(f"{host}: would remove {name}, {size}")
    console.print("nothing was removed; add --yes to remove it")


def _unknown_model(name: str, known: set[str]) -> UsageError:
    hint = did_you_mean(name, sorted(known)) or "weights.list shows them"
    return UsageError(f"no node has a model {name!r}", hint=hint)


def _refuse_served(link: Link, resolved: Resolved, name: str) -> None:
    survey = ask_survey(link, Settings(host=link.host), resolved.cluster.name)
    script = survey.files.get("vllm-serve.sh") or ""
    folder = name if "/" not in name else "models--" + name.replace("/", "--")
    if survey.running and f"/{folder}" in script:
        raise UsageError(f"{link.host.name} serves {name} now", hint="stop it: cluster.down")


def _remove(link: Link, model: Model | None) -> str:
    if model is None:
        return "not there"
    gone = shelf.remove(link, _root(link), model)
    left = f"; left, as not ours: {', '.join(gone.left)}" if gone.left else ""
    return f"removed {gone.files} files, {show_size(gone.freed)}{left}"


def _root(link: Link) -> str:
    return Settings(host=link.host).text("weights_dir")


def _everywhere(resolved: Resolved, asked: Asked, work: Callable[[Link], T]) -> Answers[T]:
    with Pool(open_link, forks=asked.forks) as pool:
        return pool.map(work, resolved.cluster.hosts)


def _console() -> Console:
    return Console(highlight=False, markup=False, soft_wrap=True)


def _tell_errors(console: Console, answers: Answers[T]) -> None:
    for error in answers.errors.values():
        console.print(str(error), style="red")

"""Which models stand on every node: `weights.list` and `weights.prune`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict

from sparkfleet.cli.asked import Asked
from sparkfleet.cli.inspection import exit_code
from sparkfleet.cli.resolution import Resolved, resolve, tell
from sparkfleet.cli.screen import say, screen
from sparkfleet.cli.tables import console, table
from sparkfleet.errors import UsageError
from sparkfleet.launch.engines.container import WEIGHTS
from sparkfleet.launch.survey import ask_survey
from sparkfleet.quantities import show_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Answers, Pool, T
from sparkfleet.report import json
from sparkfleet.spelling import did_you_mean
from sparkfleet.weights import shelf
from sparkfleet.weights.shelf import Model


def show_models(asked: Asked) -> int:
    """Print the models of every node."""
    resolved = resolve(asked, needs_recipe=False)
    tell(asked, resolved)
    with Pool(open_link, forks=asked.forks) as pool:
        answers = pool.map(lambda link: shelf.models(link, _root(link)), resolved.cluster.hosts)
    if asked.output == "json":
        json.write(_document(answers), sys.stdout)
        return exit_code(answers.errors)
    found = table("host", "model", "size", "files", "state")
    for name, models in answers.values.items():
        for model in models:
            found.add_row(name, model.name, show_size(model.bytes), str(model.files), _state(model))
    console().print(found)
    _tell_errors(answers)
    return exit_code(answers.errors)


def _document(answers: Answers[tuple[Model, ...]]) -> Mapping[str, object]:
    hosts = {
        name: [{"name": one.name, **asdict(one)} for one in models]
        for name, models in answers.values.items()
    }
    errors = {name: str(error) for name, error in answers.errors.items()}
    return json.document(hosts=hosts, errors=errors)


def _state(model: Model) -> str:
    if model.partial:
        return f"{model.partial} downloads not ended"
    return "staged by sparkfleet" if model.staged else "not ours"


def prune_model(asked: Asked, name: str, *, yes: bool) -> int:
    """Remove the model `name` from every node that has it, or show what would go."""
    resolved = resolve(asked, needs_recipe=False)
    tell(asked, resolved)
    known: set[str] = set()

    def find(link: Link) -> Model | None:
        models = shelf.models(link, _root(link))
        known.update(model.name for model in models)
        found = next((one for one in models if one.name == name), None)
        if found is not None:
            _refuse_served(link, resolved, found)
        return found

    with Pool(open_link, forks=asked.forks) as pool:
        holders = pool.map(find, resolved.cluster.hosts).all()
        having = [host for host in resolved.cluster.hosts if holders[host.name] is not None]
        if not having:
            raise _unknown_model(name, known)
        if not yes:
            _show_prune(name, {host.name: holders[host.name] for host in having})
            return 0
        removed = pool.map(lambda link: _remove(link, holders[link.host.name]), having)
    for host_name, text in removed.values.items():
        say(f"{host_name}: {text}")
    _tell_errors(removed)
    return exit_code(removed.errors)


def _show_prune(name: str, holders: Mapping[str, Model | None]) -> None:
    for host, model in holders.items():
        size = show_size(getattr(model, "bytes", 0))
        say(f"{host}: would remove {name}, {size}")
    say("nothing was removed; add --yes to remove it")


def _unknown_model(name: str, known: set[str]) -> UsageError:
    hint = did_you_mean(name, sorted(known)) or "weights.list shows them"
    return UsageError(f"no node has a model {name!r}", hint=hint)


def _refuse_served(link: Link, resolved: Resolved, model: Model) -> None:
    survey = ask_survey(link, Settings(host=link.host), resolved.cluster.name)
    script = survey.files.get("vllm-serve.sh") or ""
    roots = (survey.expand(_root(link)), WEIGHTS)
    if survey.running and model.named_in(script, roots):
        raise UsageError(f"{link.host.name} serves {model.name} now", hint="stop it: cluster.down")


def _remove(link: Link, model: Model | None) -> str:
    if model is None:
        return "not there"
    gone = shelf.remove(link, _root(link), model)
    left = f"; left, as not ours: {', '.join(gone.left)}" if gone.left else ""
    return f"removed {gone.files} files, {show_size(gone.freed)}{left}"


def _root(link: Link) -> str:
    return Settings(host=link.host).text("weights_dir")


def _tell_errors(answers: Answers[T]) -> None:
    for error in answers.errors.values():
        screen(sys.stdout).line(str(error), "red")

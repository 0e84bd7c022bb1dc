"""Which models stand on every node: `weights.list` and `weights.prune`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict

from sparkfleet.cli.cluster.logs import compute_exit_code
from sparkfleet.cli.context import CommandContext, print_run_started, resolve_context
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import create_screen, print_lines
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.errors import UsageError
from sparkfleet.launch.engines.container import WEIGHTS
from sparkfleet.launch.host.survey import survey_host
from sparkfleet.quantities import format_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.open import open_connection
from sparkfleet.remote.pool import Answers, ConnectionPool, T
from sparkfleet.report import json
from sparkfleet.spelling import did_you_mean
from sparkfleet.weights import model_store
from sparkfleet.weights.model_store import StoredModel


def show_models(options: Options) -> int:
    """Print the models of every node."""
    context = resolve_context(options, needs_recipe=False)
    print_run_started(options, context)
    with ConnectionPool(open_connection, forks=options.forks) as pool:
        answers = pool.map(
            lambda connection: model_store.list_stored_models(
                connection, _find_weights_root(connection)
            ),
            context.cluster.hosts,
        )
    if options.output == "json":
        json.write_document(_build_models_document(answers), sys.stdout)
        return compute_exit_code(answers.errors)
    grid = create_table("host", "model", "size", "files", "state")
    for name, models in answers.values.items():
        for model in models:
            grid.add_row(
                name,
                model.name,
                format_size(model.bytes),
                str(model.files),
                _format_model_state(model),
            )
    create_console().print(grid)
    _print_host_errors(answers)
    return compute_exit_code(answers.errors)


def _build_models_document(answers: Answers[tuple[StoredModel, ...]]) -> Mapping[str, object]:
    hosts = {
        name: [{"name": model.name, **asdict(model)} for model in models]
        for name, models in answers.values.items()
    }
    errors = {name: str(error) for name, error in answers.errors.items()}
    return json.build_document(hosts=hosts, errors=errors)


def _format_model_state(model: StoredModel) -> str:
    if model.partial:
        return f"{model.partial} downloads not ended"
    return "staged by sparkfleet" if model.staged else "not ours"


def prune_model(options: Options, name: str, *, yes: bool) -> int:
    """Remove the model `name` from every node that has it, or show what would go."""
    context = resolve_context(options, needs_recipe=False)
    print_run_started(options, context)
    names: set[str] = set()

    def find_model(connection: Connection) -> StoredModel | None:
        models = model_store.list_stored_models(connection, _find_weights_root(connection))
        names.update(model.name for model in models)
        match = next((candidate for candidate in models if candidate.name == name), None)
        if match is not None:
            _check_not_served(connection, context, match)
        return match

    with ConnectionPool(open_connection, forks=options.forks) as pool:
        holders = pool.map(find_model, context.cluster.hosts).all()
        having = [host for host in context.cluster.hosts if holders[host.name] is not None]
        if not having:
            raise _build_unknown_model_error(name, names)
        if not yes:
            _print_prune_plan(name, {host.name: holders[host.name] for host in having})
            return 0
        removed = pool.map(
            lambda connection: _remove_model(connection, holders[connection.host.name]), having
        )
    for host_name, text in removed.values.items():
        print_lines(f"{host_name}: {text}")
    _print_host_errors(removed)
    return compute_exit_code(removed.errors)


def _print_prune_plan(name: str, holders: Mapping[str, StoredModel | None]) -> None:
    for host, model in holders.items():
        size = format_size(getattr(model, "bytes", 0))
        print_lines(f"{host}: would remove {name}, {size}")
    print_lines("nothing was removed; add --yes to remove it")


def _build_unknown_model_error(name: str, names: set[str]) -> UsageError:
    hint = did_you_mean(name, sorted(names)) or "{task:weights.list} shows them"
    return UsageError(f"no node has a model {name!r}", hint=hint)


def _check_not_served(connection: Connection, context: CommandContext, model: StoredModel) -> None:
    survey = survey_host(connection, Settings(host=connection.host), context.cluster.name)
    script = survey.files.get("vllm-serve.sh") or ""
    roots = (survey.expand(_find_weights_root(connection)), WEIGHTS)
    if survey.running_summary and model.is_named_in(script, roots):
        raise UsageError(
            f"{connection.host.name} serves {model.name} now", hint="stop it: {task:cluster.down}"
        )


def _remove_model(connection: Connection, model: StoredModel | None) -> str:
    if model is None:
        return "not there"
    removal = model_store.remove_stored_model(connection, _find_weights_root(connection), model)
    left = f"; left, as not ours: {', '.join(removal.left)}" if removal.left else ""
    return f"removed {removal.files} files, {format_size(removal.freed)}{left}"


def _find_weights_root(connection: Connection) -> str:
    return Settings(host=connection.host).text("weights_dir")


def _print_host_errors(answers: Answers[T]) -> None:
    for error in answers.errors.values():
        create_screen(sys.stdout).line(str(error), "red")

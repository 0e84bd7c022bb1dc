"""`weights.list` and `weights.prune`: the models on every node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sparkfleet.cli.context import CommandContext, open_cluster
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import print_host_errors, print_lines
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.cli.weights.options import PruneOptions
from sparkfleet.errors import UsageError
from sparkfleet.launch.engines.container import WEIGHTS
from sparkfleet.launch.host.survey import survey_host
from sparkfleet.quantities import format_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.spelling import did_you_mean
from sparkfleet.weights import model_store
from sparkfleet.weights.model_store import StoredModel


def show_models(options: Options) -> int:
    """Print the models of every node."""
    with open_cluster(options) as session:
        answers = session.pool.map(
            lambda connection: model_store.list_stored_models(
                connection, _find_weights_root(connection)
            ),
            session.context.cluster.hosts,
        )
    if options.json:
        print_document(**_build_models_document(answers))
        return compute_exit_code(answers.errors.values())
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
    print_host_errors(answers.errors)
    return compute_exit_code(answers.errors.values())


def _build_models_document(answers: Answers[tuple[StoredModel, ...]]) -> dict[str, Any]:
    hosts = {
        name: [{"name": model.name, **asdict(model)} for model in models]
        for name, models in answers.values.items()
    }
    errors = {name: str(error) for name, error in answers.errors.items()}
    return {"hosts": hosts, "errors": errors}


def _format_model_state(model: StoredModel) -> str:
    if model.partial:
        return f"{model.partial} unfinished downloads"
    return "staged by sparkfleet" if model.staged else "not staged by sparkfleet"


def prune_model(options: PruneOptions) -> int:
    """Remove a model from every node that has it, or show what would be removed."""
    name = options.name
    names: set[str] = set()

    def find_model(connection: Connection) -> StoredModel | None:
        models = model_store.list_stored_models(connection, _find_weights_root(connection))
        names.update(model.name for model in models)
        match = next((candidate for candidate in models if candidate.name == name), None)
        if match is not None:
            _check_not_served(connection, session.context, match)
        return match

    with open_cluster(options) as session:
        hosts = session.context.cluster.hosts
        holders = session.pool.map(find_model, hosts).all()
        having = [host for host in hosts if holders[host.name] is not None]
        if not having:
            raise _build_unknown_model_error(name, names)
        if not options.yes:
            _print_prune_plan(name, {host.name: holders[host.name] for host in having})
            return 0
        removed = session.pool.map(
            lambda connection: _remove_model(connection, holders[connection.host.name]), having
        )
    for host_name, text in removed.values.items():
        print_lines(f"{host_name}: {text}")
    print_host_errors(removed.errors)
    return compute_exit_code(removed.errors.values())


def _print_prune_plan(name: str, holders: Mapping[str, StoredModel | None]) -> None:
    for host, model in holders.items():
        size = format_size(getattr(model, "bytes", 0))
        print_lines(f"{host}: would remove {name}, {size}")
    print_lines("nothing was removed; add --yes to remove it")


def _build_unknown_model_error(name: str, names: set[str]) -> UsageError:
    hint = did_you_mean(name, sorted(names)) or "{task:weights.list} shows them"
    return UsageError(f"model {name!r} not found on any node", hint=hint)


def _check_not_served(connection: Connection, context: CommandContext, model: StoredModel) -> None:
    survey = survey_host(connection, Settings(host=connection.host), context.cluster.name)
    script = survey.files.get("vllm-serve.sh") or ""
    roots = (survey.expand(_find_weights_root(connection)), WEIGHTS)
    if survey.running_summary and model.is_named_in(script, roots):
        raise UsageError(
            f"{connection.host.name} is serving {model.name}", hint="stop it: {task:cluster.down}"
        )


def _remove_model(connection: Connection, model: StoredModel | None) -> str:
    if model is None:
        return "not found"
    removal = model_store.remove_stored_model(connection, _find_weights_root(connection), model)
    left = f"; left, not staged by sparkfleet: {', '.join(removal.left)}" if removal.left else ""
    return f"removed {removal.files} files, {format_size(removal.freed)}{left}"


def _find_weights_root(connection: Connection) -> str:
    return Settings(host=connection.host).text("weights_dir")

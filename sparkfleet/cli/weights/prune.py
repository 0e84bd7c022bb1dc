"""`weights.prune`: remove a model from every node."""

from __future__ import annotations

from collections.abc import Mapping

from sparkfleet.cli.context import CommandContext, open_cluster
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.views.screen import print_host_errors, print_lines
from sparkfleet.cli.weights.options import PruneOptions
from sparkfleet.cli.weights.session import read_weights_dir
from sparkfleet.errors import UsageError
from sparkfleet.launch.engines.container import WEIGHTS
from sparkfleet.launch.host.survey import survey_host
from sparkfleet.quantities import format_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.report.plurals import format_plural
from sparkfleet.spelling import did_you_mean
from sparkfleet.weights import model_store
from sparkfleet.weights.model_store import StoredModel


def prune_model(options: PruneOptions) -> int:
    """Remove a model from every node that has it, or show what would be removed."""
    name = options.name
    names: set[str] = set()

    def find_model(connection: Connection) -> StoredModel | None:
        models = model_store.list_stored_models(connection, read_weights_dir(connection))
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
    roots = (survey.expand(read_weights_dir(connection)), WEIGHTS)
    if survey.running_summary and model.is_named_in(script, roots):
        raise UsageError(
            f"{connection.host.name} is serving {model.name}", hint="stop it: {task:cluster.down}"
        )


def _remove_model(connection: Connection, model: StoredModel | None) -> str:
    if model is None:
        return "not found"
    removal = model_store.remove_stored_model(connection, read_weights_dir(connection), model)
    left = f"; kept, not staged by sparkfleet: {', '.join(removal.left)}" if removal.left else ""
    return f"removed {format_plural(removal.files, 'file')}, {format_size(removal.freed)}{left}"

"""`weights.list`: the models on every node."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sparkfleet.cli.context import open_cluster
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import print_host_errors
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.quantities import format_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.pool import Answers
from sparkfleet.report.plurals import format_plural
from sparkfleet.weights import model_store
from sparkfleet.weights.model_store import StoredModel


def show_models(options: Options) -> int:
    """Print the models of every node."""
    with open_cluster(options) as session:
        answers = session.pool.map(
            lambda connection: model_store.list_stored_models(
                connection, Settings(host=connection.host).text("weights_dir")
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
        return format_plural(model.partial, "unfinished download")
    return "staged by sparkfleet" if model.staged else "not staged by sparkfleet"

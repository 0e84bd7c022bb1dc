"""`model_tokenizer`: check that the engine's transformers can read the staged tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host.processes import read_host_text
from sparkfleet.launch.preflight.tokenizer_checks import FILE, check_tokenizer
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection
from sparkfleet.values import parse_json


class ModelTokenizer(Action[NoArgs]):
    """Check that the engine's transformers can read the model's tokenizer.

    Reads tokenizer_config.json on the head. Reads nothing if the deployment already runs.
    """

    name = "model_tokenizer"
    requires = ("surveys", "launch", "weights")
    inspects = True

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Run on the head: the weights are identical everywhere."""
        return run.cluster.hosts[:1]

    def inspect(self, run: RunContext, connection: Connection) -> str:
        """Read the file; "" if it is missing or not needed."""
        if not run.launch.reason:
            return ""
        return read_host_text(connection, f"{run.weights.paths[connection.host.name]}/{FILE}")

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Check the tokenizer."""
        return {name: _plan_model_tokenizer(run, name, text) for name, text in inspected.items()}


def _plan_model_tokenizer(run: RunContext, host: str, text: str) -> Plan:
    try:
        content = parse_json(text or "null")
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return Plan(message=f"no {FILE} to check")
    files = [file.path for model in run.weights.models[:1] for file in model.manifest.files]
    settings = run.settings(run.cluster.head)
    verdicts = tuple(check_tokenizer(content, settings, run.surveys[host].probe, files))
    name = content.get("tokenizer_class")
    message = name if isinstance(name, str) else "tokenizer_class is not set"
    return Plan(verdicts=verdicts, message=message)

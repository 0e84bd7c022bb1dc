"""`model_shape`: check that the staged model can be split by --tp and --pp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.check.recipe_rules import read_start_options
from sparkfleet.actions.run_context import RunContext
from sparkfleet.fit import config
from sparkfleet.launch.host.processes import read_host_text
from sparkfleet.launch.preflight.parallelism_checks import check_parallelism
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection


class ModelShape(Action[NoArgs]):
    """Read the model's config.json on the head, and check what --tp and --pp divide.

    Reads nothing if the deployment already runs.
    """

    name = "model_shape"
    requires = ("launch", "weights")
    uses = ("observed",)
    inspects = True

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Run on the head: the weights are identical everywhere."""
        return run.cluster.hosts[:1]

    def inspect(self, run: RunContext, connection: Connection) -> str:
        """Read the file; "" if it is missing or not needed."""
        if run.options.tp * run.options.pp == 1 or not run.launch.reason:
            return ""
        return read_host_text(connection, f"{run.weights.paths[connection.host.name]}/config.json")

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Check the shape."""
        return {name: _plan_model_shape(run, name, text) for name, text in inspected.items()}


def _plan_model_shape(run: RunContext, host: str, text: str) -> Plan:
    if not text:
        return Plan(message="nothing to split")
    model = config.parse_model_config(text, file=f"config.json of the model on {host}")
    options = read_start_options(run)
    verdicts = tuple(check_parallelism(model, options, host=host, copies=run.options.dp))
    summary = f"{model.layers} layers, {model.heads} heads, {model.kv_heads} KV heads"
    return Plan(verdicts=verdicts, message=summary)

"""`locate_weights`: the paths of the weights on every host, whether they are staged or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.actions.stage.staged_weights import build_staged_weights
from sparkfleet.model import Host
from sparkfleet.remote.pool import Answers
from sparkfleet.weights.required_models import ResolvedModel, resolve_required_models


class LocateWeights(Action[NoArgs]):
    """Provide the paths that `stage_weights` would use. Reads and writes nothing on the hosts."""

    name = "locate_weights"
    requires = ("surveys",)
    provides = ("weights",)

    def inspect_all(
        self, run: RunContext, hosts: tuple[Host, ...]
    ) -> Answers[tuple[ResolvedModel, ...]]:
        """Resolve the needed models once."""
        models = resolve_required_models(run.settings(run.cluster.head))
        return Answers(values={host.name: models for host in hosts}, errors={})

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Provide the paths on every host."""
        roots = {
            host.name: run.surveys[host.name].expand(run.settings(host).text("weights_dir"))
            for host in run.cluster.hosts
        }
        weights = build_staged_weights(inspected[run.cluster.head.name], roots)
        return Planned(
            plans={name: Plan() for name in inspected}, provided=RunState(weights=weights)
        )

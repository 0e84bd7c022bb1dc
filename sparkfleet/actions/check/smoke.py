"""`smoke`: a question with a known answer, asked as a client asks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.launch_state import find_endpoint, record_step_everywhere
from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import LaunchError
from sparkfleet.launch.host.deployment_record import RunStep
from sparkfleet.model import Host
from sparkfleet.recipes.recipe import SmokePrompt
from sparkfleet.remote.connection import Connection

DEFAULT = SmokePrompt(ask="12*17", expect="204")  # seeds/5, section 6
TIMEOUT = 300.0  # s; the first request compiles


class Smoke(Action[NoArgs]):
    """Ask the recipe's smoke questions. A wrong answer refuses: a healthy boot proves no output."""

    name = "smoke"

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Ask from the head, so that it works behind any firewall."""
        return run.cluster.hosts[:1]

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Ask always; it costs one short request a question."""
        return {name: Plan(work=True) for name in inspected}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Ask every question, and raise LaunchError for the first wrong answer."""
        answers = []
        tokens = run.settings(connection.host).integer("vllm_smoke_tokens")
        for question in run.recipe.smoke or (DEFAULT,):
            answer = find_endpoint(run).chat(
                connection, question.ask, tokens=tokens, timeout=TIMEOUT
            )
            if question.expect not in answer.text:
                raise LaunchError(
                    f"the smoke prompt {question.ask!r} was answered {answer.text!r}, "
                    f"not {question.expect!r}",
                    host=connection.host.name,
                    hint="garbled output: compare the weights (weights.verify) and the recipe",
                )
            answers.append(f"{question.ask} -> {answer.text.strip()}")
        return Plan(message="; ".join(answers), data={"answers": answers})

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> None:
        """Write down that the new deployment is the good one now."""
        record_step_everywhere(run, RunStep.SMOKED)

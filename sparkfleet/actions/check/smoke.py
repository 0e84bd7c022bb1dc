"""`smoke`: send a prompt with a known answer, as a client does."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.start_action import (
    find_endpoint,
    list_copies,
    record_step_everywhere,
)
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import NOTHING, RunState
from sparkfleet.command_name import name_command
from sparkfleet.errors import LaunchError
from sparkfleet.launch.endpoint.answer_length import choose_answer_tokens
from sparkfleet.launch.host.deployment_record import RunStep
from sparkfleet.model import Host
from sparkfleet.recipes.recipe import SmokePrompt
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Progress

DEFAULT = SmokePrompt(ask="12*17", expect="204")
TIMEOUT = 300.0  # seconds; the first request compiles


def suggest_check(settings: Settings) -> str:
    """Return what to look at after a wrong answer, a chat template that is set first."""
    template = settings.vllm_options.value("chat-template")
    first = f"check the chat template, {template}; " if template else ""
    return (
        f"{first}if the text is garbled, check the recipe, and the weights with "
        f"{name_command('weights.verify')}"
    )


class Smoke(Action[NoArgs]):
    """Send the recipe's smoke prompts to each copy; fail for a wrong answer from any of them."""

    name = "smoke"
    needs_recipe = True
    requires = ("launch",)
    uses = ("replacement",)
    after = ("wait_ready",)
    repeatable = True

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Run on the head, so that it works behind any firewall."""
        return run.cluster.hosts[:1]

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Send them always; each prompt is one short request."""
        return {name: Plan(work=True) for name in inspected}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Send every prompt, and raise LaunchError for the first wrong answer."""
        answers = []
        tokens = choose_answer_tokens(run.settings(connection.host))
        for prompt, copy in itertools.product(run.recipe.smoke or (DEFAULT,), list_copies(run)):
            whose = "" if copy is None else f" from copy {copy}"
            text = f"waiting for the answer{whose} to {prompt.ask!r}, {TIMEOUT:.0f} s at most"
            run.report(Progress(host=connection.host.name, text=text))
            answer = find_endpoint(run).chat(
                connection, prompt.ask, tokens=tokens, timeout=TIMEOUT, copy=copy
            )
            if prompt.expect not in answer.text:
                raise LaunchError(
                    f"wrong answer{whose} to the smoke prompt {prompt.ask!r}: "
                    f"expected {prompt.expect!r} (got {answer.text!r})",
                    host=connection.host.name,
                    hint=suggest_check(run.settings(connection.host)),
                )
            prefix = "" if copy is None else f"copy {copy}: "
            answers.append(f"{prefix}{prompt.ask} -> {answer.text.strip()}")
        return Plan(message="; ".join(answers), data={"answers": answers})

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
        """Record that the new deployment works."""
        record_step_everywhere(run, RunStep.SMOKED)
        return NOTHING

"""`smoke`: a question with a known answer, asked as a client asks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.launching import endpoint, mark_all
from sparkfleet.actions.scene import Scene
from sparkfleet.errors import LaunchError
from sparkfleet.launch.transaction import Step
from sparkfleet.model import Host
from sparkfleet.recipes.recipe import Question
from sparkfleet.remote.link import Link

DEFAULT = Question(ask="12*17", expect="204")  # seeds/5, section 6
TIMEOUT = 300.0  # s; the first request compiles


class Smoke(Action[NoArgs]):
    """Ask the recipe's smoke questions. A wrong answer refuses: a healthy boot proves no output."""

    name = "smoke"

    def hosts(self, scene: Scene) -> Sequence[Host]:
        """Ask from the head, so that it works behind any firewall."""
        return scene.cluster.hosts[:1]

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Ask always; it costs one short request a question."""
        return {name: Plan(work=True) for name in seen}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Ask every question, and raise LaunchError for the first wrong answer."""
        answers = []
        tokens = scene.settings(link.host).integer("vllm_smoke_tokens")
        for question in scene.recipe.smoke or (DEFAULT,):
            answer = endpoint(scene).chat(link, question.ask, tokens=tokens, timeout=TIMEOUT)
            if question.expect not in answer.text:
                raise LaunchError(
                    f"the smoke prompt {question.ask!r} was answered {answer.text!r}, "
                    f"not {question.expect!r}",
                    host=link.host.name,
                    hint="garbled output: compare the weights (weights.verify) and the recipe",
                )
            answers.append(f"{question.ask} -> {answer.text.strip()}")
        return Plan(message="; ".join(answers), data={"answers": answers})

    def settle(self, scene: Scene, plans: Mapping[str, Plan]) -> None:
        """Write down that the new deployment is the good one now."""
        mark_all(scene, Step.SMOKED)

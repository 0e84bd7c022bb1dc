"""Hints after a wrong answer to the smoke prompt."""

from __future__ import annotations

from sparkfleet.actions.check.smoke import suggest_check
from sparkfleet.model import Host, Value
from sparkfleet.recipes.settings import Settings


def _suggest(**args: str) -> str:
    return suggest_check(Settings(host=Host(name="a", vars={"vllm_args": Value(data=args)})))


def test_the_weights_are_suspected_of_garbled_text() -> None:
    assert _suggest() == (
        "if the text is garbled, check the recipe, and the weights with sparkfleet weights.verify"
    )


def test_a_chat_template_that_is_set_is_suspected_first() -> None:
    assert _suggest(**{"chat-template": "/srv/x.jinja"}).startswith(
        "check the chat template, /srv/x.jinja; if the text is garbled"
    )

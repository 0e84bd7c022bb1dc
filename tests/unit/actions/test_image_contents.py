"""The contents of an image once it was copied to a host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkfleet.actions.action import Plan
from sparkfleet.actions.stage.image_contents import inspect_copied_image
from sparkfleet.errors import CommandError
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.images import transfer
from sparkfleet.model import Host
from tests.engines import IMAGE, survey

BARE = survey(image=None, base=None, image_name=IMAGE)


def _refusal(monkeypatch: pytest.MonkeyPatch, *surveys: Survey) -> CommandError:
    """Return the error where the first host has no image after the copy."""
    monkeypatch.setattr(transfer, "inspect_images", lambda _: BARE)
    connection = SimpleNamespace(host=Host(name="spark-0"))
    node: Any = SimpleNamespace(connection=connection, cli="docker")
    run: Any = SimpleNamespace(surveys={f"spark-{at}": each for at, each in enumerate(surveys)})
    with pytest.raises(CommandError) as caught:
        inspect_copied_image(run, node, Plan())
    return caught.value


def test_a_copy_without_a_host_that_has_the_image_names_the_missing_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = _refusal(monkeypatch, BARE, BARE)
    assert error.message == "no host has the image, so it cannot be copied"
    assert error.hint == "add the task `image: {step: obtain}` before this one"


def test_a_copy_that_did_not_arrive_names_where_it_comes_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = _refusal(monkeypatch, BARE, survey())
    assert error.message == "the copied image differs from the image on spark-1"

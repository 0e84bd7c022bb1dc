"""C39: a container wrote as root into the user's cache; later syncs failed."""

from __future__ import annotations

from tests.engines import option, words


def test_weights_are_mounted_read_only() -> None:
    (weights,) = [one for one in option(words(), "mount") if "target=/models" in one]
    assert weights.endswith(",readonly")


def test_the_user_of_the_container_can_be_the_one_who_logs_in() -> None:
    assert option(words(engine_user="host"), "user") == ["1000:1000"]
    assert option(words(engine_user="1001:1001"), "user") == ["1001:1001"]
    assert option(words(), "user") == []

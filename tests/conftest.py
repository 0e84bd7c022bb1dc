"""Which tests may run side by side: there is one lab, so all that boot it are one group."""

from __future__ import annotations

import pytest

LAB = ("fleet", "e2e")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests of the lab, and those of each other file, for `pytest -n`."""
    for item in items:
        lab = any(item.get_closest_marker(name) for name in LAB)
        item.add_marker(pytest.mark.xdist_group("lab" if lab else item.path.name))

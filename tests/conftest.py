"""Which tests run, and which may run side by side: there is one lab, one test's at a time."""

from __future__ import annotations

import signal
from typing import Any

import pytest

# Started in the background, a shell lets us ignore Ctrl-C, and so would all that we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LAB = ("tests/e2e/", "tests/fleet/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n`, give the lab's tests to one worker, and the others to any, file by file."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - only where it is in use

    class OneLab(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "lab" if nodeid.startswith(LAB) else super()._split_scope(nodeid)

    return OneLab(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--thorough`."""
    parser.addoption(
        "--thorough", action="store_true", help="also what takes long and varies another test"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is `thorough`, unless it was asked for."""
    if not config.getoption("--thorough"):
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

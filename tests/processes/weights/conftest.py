"""Fixtures of the tests of weights."""

from __future__ import annotations

from tests.unit.weights.conftest import empty_hub, isolated, short_waits

__all__ = ["empty_hub", "isolated", "short_waits"]

"""A quantity of which only the bounds are known; what is known exactly has equal bounds."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.errors import InputError


class UnknownFigureError(InputError):
    """The model's files do not say what is needed; the message names what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """From `low` to `high`, both included."""

    low: float
    high: float

    @classmethod
    def of(cls, low: float, high: float | None = None) -> Interval:
        """Return the span from `low` to `high`; without it, exactly `low`."""
        return cls(low=low, high=low if high is None else high)

    def __add__(self, other: Interval) -> Interval:
        return Interval(low=self.low + other.low, high=self.high + other.high)

    def times(self, factor: float) -> Interval:
        """Return the span with both bounds multiplied by a `factor` from 0."""
        return Interval(low=self.low * factor, high=self.high * factor)

    @property
    def middle(self) -> float:
        """The value between the bounds."""
        return (self.low + self.high) / 2


NOTHING = Interval(low=0, high=0)

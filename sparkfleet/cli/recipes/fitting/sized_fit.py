"""The answer whether a recipe fits so many Sparks."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class RecipeFit(enum.StrEnum):
    """The answer whether a recipe fits, by how sure it is."""

    PUBLISHED = "published"  # its source measured it on so many Sparks
    ESTIMATED = "estimated"
    WEIGHTS = "weights fit"  # the KV cache is not known
    UNKNOWN = "unknown"
    NOT = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedFit:
    """Whether a recipe fits on `nodes` Sparks, and why."""

    nodes: int
    fit: RecipeFit
    why: str

    @property
    def text(self) -> str:
        """The answer as a table has it."""
        if self.fit is RecipeFit.NOT:
            return "no"
        return f"{self.fit} on {self.nodes}" if self.fit is not RecipeFit.UNKNOWN else str(self.fit)

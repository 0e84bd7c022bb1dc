"""What is known of a model, and what is not."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.weights import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """A model's shape and weights, and those of the draft that is loaded beside it.

    None is what nobody knows; `unknown` says why, a sentence each.
    """

    shape: Architecture | None = None
    weights: Weights | None = None
    draft_shape: Architecture | None = None
    draft: Weights | None = None
    unknown: tuple[str, ...] = ()

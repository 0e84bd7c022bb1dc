"""The profile of a model: what is known of it, and what is not."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.weights import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """A model's shape and weights, and those of the draft model that is loaded with it.

    None is unknown; `unknown` says why, in one sentence each.
    """

    shape: Architecture | None = None
    weights: Weights | None = None
    draft_shape: Architecture | None = None
    draft: Weights | None = None
    unknown: tuple[str, ...] = ()

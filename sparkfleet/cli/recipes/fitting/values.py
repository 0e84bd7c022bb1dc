"""Values of `recipes.fit`: the request, what was read for it, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkfleet.cli.options import Options
from sparkfleet.cli.recipes.options import FitOptions
from sparkfleet.errors import UsageError
from sparkfleet.fit.advice import Recommendation
from sparkfleet.fit.cost_model import CostModel
from sparkfleet.fit.memory import Fit, FitAnswer, NodeMemory
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.requirements import MemoryRequirements
from sparkfleet.fit.speed import DecodeRate
from sparkfleet.model import EMPTY
from sparkfleet.recipes.recipe import Recipe, Speed

Answer = Mapping[str, Any]  # a model's config and tensors
SOURCES = ("folder", "staged", "hub")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitInputs:
    """Inputs that were read: model, draft, nodes, and the terms of speed; with notes."""

    answer: Answer | None
    draft: Answer | None
    host_memory: tuple[NodeMemory, ...]
    terms: CostModel | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """A request: options that override those of the recipe, and where to read the model."""

    options: Options
    recipe: str
    sized: bool = False  # --tp was given
    overrides: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # options of vLLM
    requests: int = 1
    context: int = 0
    folder: Path | None = None
    staged: bool = False
    hub: bool = False

    @classmethod
    def from_options(cls, options: FitOptions) -> FitRequest:
        """Return the request in the options of the task; raises UsageError."""
        sources = [f"--{name}" for name in SOURCES if getattr(options, name)]
        if len(sources) > 1:
            raise UsageError(
                f"{' and '.join(sources)} cannot be combined: each reads another copy of the model",
                hint="leave one out",
            )
        overrides = {
            "max-model-len": options.max_model_len,
            "max-num-seqs": options.max_num_seqs,
            "gpu-memory-utilization": options.util,
        }
        return cls(
            options=options,
            recipe=options.recipe,
            sized="tp" in options.given,
            overrides={name: value for name, value in overrides.items() if value is not None},
            requests=options.requests,
            context=options.context or 0,
            folder=options.folder,
            staged=options.staged,
            hub=options.hub,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedSpeed:
    """A published speed of the recipe, and the prediction for it."""

    speed: Speed
    rate: DecodeRate


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """The result of `recipes.fit`."""

    recipe: Recipe
    model_name: str
    start: ServeOptions
    model: ModelProfile
    need: MemoryRequirements
    fits: Mapping[str, Fit]
    advice: Recommendation
    rate: DecodeRate | None
    requests: int
    context: int
    published: tuple[PredictedSpeed, ...]
    notes: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether it does not fit on some node."""
        return any(fit.answer is FitAnswer.NOT for fit in self.fits.values())

"""Compare what `recipes.fit` predicts with every published figure of the seed documents.

    python benchmarks/fit.py            the tables of docs/fit.md
    python benchmarks/fit.py --terms    the terms of speed, fitted to the rows that name one stream

Nothing here is tuned for a model: the terms are the same for all rows, and a config that could not
be found is no row.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sparkfleet.fit import speed
from sparkfleet.fit.config import Architecture, parse
from sparkfleet.fit.model import Model
from sparkfleet.fit.options import Speculation, Start
from sparkfleet.fit.terms import Sample, fitted
from sparkfleet.fit.weights import from_shape

CONFIGS = Path(__file__).parents[1] / "tests/configs"
INT4, INT8 = {"quant_method": "awq", "bits": 4}, {"quant_method": "awq", "bits": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A decode speed that a document publishes: tokens/s, from `low` to `high`."""

    name: str
    config: str
    low: float
    source: str
    high: float | None = None
    start: Start = field(default_factory=Start)
    sequences: int = 1
    context: int = 0
    quantization: Mapping[str, Any] | None = None
    fits: bool = True  # one stream without speculation: the terms are fitted to it

    @property
    def middle(self) -> float:
        """The figure, or the middle of what was seen."""
        return (self.low + (self.high or self.low)) / 2

    def model(self) -> Model:
        """Return the model as its config tells it."""
        shape = shape_of(self.config)
        if self.quantization:
            shape = replace(shape, quantization=self.quantization)
        return Model(shape=shape, weights=from_shape(shape, self.start.online))


def shape_of(name: str) -> Architecture:
    return parse((CONFIGS / f"{name}.json").read_text(), file=name)


FP8 = Start(online="fp8", kv_dtype="fp8")
FP8_TP2 = replace(FP8, tp=2)
NVFP4 = Start(kv_dtype="fp8")
MTP4 = Start(online="fp8", kv_dtype="fp8", speculation=Speculation(method="mtp", tokens=4))
G31, G26 = "gemma-4-31b-it", "gemma-4-26b-a4b-it"
RESEARCH, TOKS, SINGLE, DUAL, GUIDE, FACTS = (
    "research 6",
    "52-toks",
    "single-spark",
    "dual-spark",
    "guide",
    "facts 5",
)

SPEEDS = (
    Published(name="Gemma 4 31B BF16", config=G31, low=3.7, source=RESEARCH),
    Published(name="Gemma 4 31B AWQ INT8", config=G31, low=6.5, source=RESEARCH, quantization=INT8),
    Published(
        name="Gemma 4 31B AWQ INT4", config=G31, low=10.6, source=RESEARCH, quantization=INT4
    ),
    Published(
        name="Gemma 4 31B NVFP4",
        config=f"{G31}-nvfp4",
        low=6.8,
        high=6.9,
        start=NVFP4,
        source=f"{RESEARCH}, {SINGLE}",
    ),
    Published(name="Gemma 4 31B FP8", config=G31, low=6.91, start=FP8, source=f"{DUAL}, c=1"),
    Published(
        name="Gemma 4 31B FP8, d=0", config=G31, low=6.5, start=FP8, source=f"{DUAL}, TP table"
    ),
    Published(
        name="Gemma 4 31B FP8, d=4096", config=G31, low=6.5, start=FP8, context=4096, source=DUAL
    ),
    Published(
        name="Gemma 4 31B FP8, d=8192", config=G31, low=6.4, start=FP8, context=8192, source=DUAL
    ),
    Published(
        name="Gemma 4 31B FP8, d=16384", config=G31, low=6.3, start=FP8, context=16384, source=DUAL
    ),
    Published(
        name="Gemma 4 31B FP8, 2 streams",
        config=G31,
        low=12.95,
        high=13.93,
        start=FP8,
        sequences=2,
        source=f"{DUAL}, c=2",
        fits=False,
    ),
    Published(
        name="Gemma 4 31B FP8, 4 streams",
        config=G31,
        low=26.82,
        high=27.43,
        start=FP8,
        sequences=4,
        source=f"{DUAL}, c=4",
        fits=False,
    ),
    Published(name="Gemma 4 31B FP8, TP=2, d=0", config=G31, low=11.2, start=FP8_TP2, source=DUAL),
    Published(
        name="Gemma 4 31B FP8, TP=2, d=4096",
        config=G31,
        low=10.3,
        start=FP8_TP2,
        context=4096,
        source=DUAL,
    ),
    Published(
        name="Gemma 4 31B FP8, TP=2, d=8192",
        config=G31,
        low=10.1,
        start=FP8_TP2,
        context=8192,
        source=DUAL,
    ),
    Published(
        name="Gemma 4 31B FP8, TP=2, d=16384",
        config=G31,
        low=11.0,
        start=FP8_TP2,
        context=16384,
        source=DUAL,
    ),
    Published(
        name="Gemma 4 26B-A4B BF16", config=G26, low=23.3, high=23.7, source=f"{RESEARCH}, {TOKS}"
    ),
    Published(
        name="Gemma 4 26B-A4B FP8",
        config=G26,
        low=36,
        high=40,
        start=FP8,
        source=f"{RESEARCH}, {SINGLE} (36.9)",
    ),
    Published(
        name="Gemma 4 26B-A4B FP8, latest builds",
        config=G26,
        low=45,
        high=57,
        start=FP8,
        source=RESEARCH,
    ),
    Published(
        name="Gemma 4 26B-A4B NVFP4",
        config=f"{G26}-nvfp4",
        low=51.5,
        high=51.6,
        start=NVFP4,
        source=TOKS,
    ),
    Published(
        name="Gemma 4 26B-A4B NVFP4, its card",
        config=f"{G26}-nvfp4",
        low=48.2,
        start=NVFP4,
        source=TOKS,
    ),
    Published(
        name="Gemma 4 26B-A4B NVFP4, 1633 tokens",
        config=f"{G26}-nvfp4",
        low=51.0,
        start=NVFP4,
        context=800,
        source=TOKS,
    ),
    Published(
        name="Gemma 4 26B-A4B NVFP4, 3 streams",
        config=f"{G26}-nvfp4",
        low=114.6,
        start=NVFP4,
        sequences=3,
        source=TOKS,
        fits=False,
    ),
    Published(
        name="Gemma 4 26B-A4B FP8, MTP 4",
        config=G26,
        low=53.7,
        start=MTP4,
        source=SINGLE,
        fits=False,
    ),
    Published(
        name="Nemotron-3-Super NVFP4",
        config="nemotron-3-super-120b-a12b-nvfp4",
        low=23,
        start=NVFP4,
        source=f"{GUIDE} 7.3.2",
        fits=False,
    ),
    Published(name="gpt-oss-120b", config="gpt-oss-120b", low=60, source=FACTS, fits=False),
)


def speeds() -> None:
    print("| row | published | read | at most | predicted | error | source |")
    print("|---|---|---|---|---|---|---|")
    for row in SPEEDS:
        found = speed.rate(row.model(), row.start, context=row.context, sequences=row.sequences)
        read = spread(found.read.low / 1e9, found.read.high / 1e9)
        print(
            f"| {row.name} | {spread(row.low, row.high or row.low)} | {read} GB "
            f"| {found.ceiling.high:.1f} | {spread(found.likely.low, found.likely.high)} "
            f"| {error(found.likely.low, found.likely.high, row.middle)} | {row.source} |"
        )


def spread(low: float, high: float) -> str:
    return f"{low:.1f}" if high - low < 0.05 else f"{low:.1f} to {high:.1f}"


def error(low: float, high: float, seen: float) -> str:
    if high - low < 0.05:
        return f"{low / seen - 1:+.0%}"
    if low <= seen <= high:
        return "inside"
    return f"{(low if seen < low else high) / seen - 1:+.0%}"


def terms() -> None:
    samples = []
    for row in SPEEDS:
        if row.fits:
            model = row.model()
            assert model.shape is not None
            read = speed.rate(model, row.start, context=row.context).read.middle
            step = speed.step(model.shape, row.start, read)
            samples.append(Sample(step=step, seconds=1 / row.middle))
    made = fitted(samples, source="SPEEDS")
    print(
        f"{len(samples)} rows: bandwidth {made.bandwidth / 1e9:.1f} GB/s, part "
        f"{made.part * 1e6:.0f} us, all-reduce {made.reduce * 1e6:.0f} us, error {made.error:.1%}"
    )


if __name__ == "__main__":
    terms() if "--terms" in sys.argv else speeds()

"""Compare what `recipes.fit` predicts with every published figure whose model's shape was found.

    python benchmarks/fit.py            the tables of docs/fit.md
    python benchmarks/fit.py --terms    the terms of speed, fitted to the rows of one plain stream

Nothing here is tuned for a model: the terms are the same for all rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sparkfleet.fit import speed
from sparkfleet.fit.config import Architecture, parse_model_config
from sparkfleet.fit.cost_model import CostModel, Sample, fit_cost_model
from sparkfleet.fit.interval import Interval
from sparkfleet.fit.kv_blocks import build_block_pool
from sparkfleet.fit.kv_cache import list_layer_caches
from sparkfleet.fit.memory import SPARK, NodeMemory, evaluate_nodes
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions, Speculation
from sparkfleet.fit.requirements import estimate_requirements
from sparkfleet.fit.weights import estimate_shape_weights

CONFIGS = Path(__file__).parents[1] / "tests/configs"
GIB = 1 << 30
INT4 = {"quant_method": "awq", "bits": 4}
INT8 = {"quant_method": "awq", "bits": 8}
ALL_NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}  # every linear layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A decode speed that a document publishes: tokens/s, from `low` to `high`."""

    name: str
    config: str
    low: float
    source: str
    high: float | None = None
    start: ServeOptions = field(default_factory=ServeOptions)
    sequences: int = 1
    context: int = 0
    quantization: Mapping[str, Any] | None = None
    fits: bool = True  # one stream without speculation: the terms are fitted to it

    @property
    def middle(self) -> float:
        """The figure, or the middle of what was seen."""
        return (self.low + (self.high or self.low)) / 2

    def model(self) -> ModelProfile:
        """Return the model that its config describes."""
        return model_of(self.config, self.quantization, self.start.online)


def shape_of(name: str, quantization: Mapping[str, Any] | None = None) -> Architecture:
    shape = parse_model_config((CONFIGS / f"{name}.json").read_text(), file=name)
    return replace(shape, quantization=quantization) if quantization else shape


def model_of(
    name: str, quantization: Mapping[str, Any] | None = None, online: str | None = None
) -> ModelProfile:
    shape = shape_of(name, quantization)
    return ModelProfile(shape=shape, weights=estimate_shape_weights(shape, online))


FP8 = ServeOptions(online="fp8", kv_dtype="fp8")
FP8_TP2 = replace(FP8, tp=2)
NVFP4 = ServeOptions(kv_dtype="fp8")
MTP4 = ServeOptions(online="fp8", kv_dtype="fp8", speculation=Speculation(method="mtp", tokens=4))
G31 = "gemma-4-31b-it"
G26 = "gemma-4-26b-a4b-it"
RESEARCH = "research 6"
TOKS = "52-toks"
SINGLE = "single-spark"
DUAL = "dual-spark"
GUIDE = "guide"
FACTS = "published"

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
    Published(
        name="Qwen3.5-27B NVFP4, no drafts",
        config="qwen3.5-27b",
        low=12,
        source=f"{GUIDE} 13.3",
        quantization=ALL_NVFP4,
        fits=False,
    ),
    Published(
        name="Qwen3.5-27B NVFP4, DFlash 15",
        config="qwen3.5-27b",
        low=33,
        source=f"{GUIDE} 13.3",
        quantization=ALL_NVFP4,
        fits=False,
        start=ServeOptions(speculation=Speculation(method="dflash", tokens=15)),
    ),
    Published(name="gpt-oss-120b", config="gpt-oss-120b", low=60, source=FACTS, fits=False),
    Published(
        name="Qwen3.5-397B int4, TP=4",
        config="qwen3.5-397b-a17b",
        low=37,
        source=FACTS,
        quantization=INT4,
        start=ServeOptions(tp=4),
        fits=False,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A size that a document publishes, and the predicted one, in its own unit."""

    name: str
    published: float
    unit: str
    predicted: Interval
    source: str


def sizes() -> Iterator[Size]:
    """Yield the sizes, in the order of the documents."""
    yield from _on_disk()
    plain = model_of(f"{G26}-nvfp4")
    asked = replace(NVFP4, length=131072, util=0.85, vllm="0.19.0")
    spark = (NodeMemory(host="spark"),)
    fit = evaluate_nodes(estimate_requirements(plain, asked), asked, spark)["spark"]
    blocks = build_block_pool(list_layer_caches(shape_of(f"{G26}-nvfp4"), "fp8"))
    assert plain.weights is not None
    assert fit.cache is not None
    assert fit.logged is not None
    loaded = plain.weights.resident.times(1 / GIB)
    yield Size(name="26B NVFP4, loaded", published=15.76, unit="GiB", predicted=loaded, source=TOKS)
    yield Size(
        name="26B NVFP4, KV cache at util 0.85",
        published=81.8,
        unit="GiB",
        predicted=fit.cache.times(1 / GIB),
        source=TOKS,
    )
    yield Size(
        name="26B NVFP4, tokens in 81.8 GiB",
        published=714768,
        unit="tokens",
        predicted=Interval.of(blocks.logged(81.8 * GIB)),
        source=TOKS,
    )
    yield Size(
        name="26B NVFP4, tokens at util 0.85",
        published=714768,
        unit="tokens",
        predicted=fit.logged,
        source=TOKS,
    )
    taken = evaluate_nodes(estimate_requirements(plain, asked), asked, spark)["spark"].claim
    yield Size(
        name="31B FP8 TP=2, used on the head at util 0.85",
        published=105721,
        unit="MiB",
        predicted=taken.times(1 / (1 << 20)),
        source=DUAL,
    )
    yield Size(
        name="what util 0.80 reserves",
        published=97,
        unit="GiB",
        predicted=Interval.of(0.8 * SPARK / GIB),
        source=SINGLE,
    )


FILES = (  # name, GB, config, quantization, source
    ("26B NVFP4 (bg-digitalservices)", 16.5, f"{G26}-nvfp4", None, TOKS),
    ("26B BF16", 49, G26, None, f"{TOKS} (51.6 GB is 48 GiB)"),
    ("26B NVFP4 (NVIDIA)", 14, f"{G26}-nvfp4", None, f"{GUIDE} 7.2.2"),
    ("31B NVFP4 (NVIDIA)", 30, f"{G31}-nvfp4", None, SINGLE),
    ("31B NVFP4 (NVIDIA)", 21, f"{G31}-nvfp4", None, f"{GUIDE} 7.2.1"),
    ("31B BF16", 59, G31, None, f"{DUAL} (62.5 GB is 58 GiB)"),
    ("12B coder NVFP4", 8.25, "gemma-4-12b-coder-nvfp4", None, f"{GUIDE} 7.2.3"),
    ("Nemotron-3-Nano NVFP4", 18, "nemotron-3-nano-30b-a3b", ALL_NVFP4, f"{GUIDE} 7.3.1"),
    ("Qwen3.6-27B NVFP4", 18, "qwen3.5-27b", ALL_NVFP4, f"{GUIDE} 7.1.2"),
    ("gpt-oss-120b MXFP4", 65, "gpt-oss-120b", None, f"{GUIDE} 7.4.2"),
)


def _on_disk() -> Iterator[Size]:
    for name, published, config, quantization, source in FILES:
        weights = model_of(config, quantization).weights
        assert weights is not None
        yield Size(
            name=f"{name}, files",
            published=published,
            unit="GB",
            predicted=weights.stored.times(1e-9),
            source=source,
        )


def tables() -> str:
    """Return both tables as Markdown."""
    return "\n".join([*_sizes_table(), "", *_speeds_table()])


def _sizes_table() -> Iterator[str]:
    yield "| size | published | predicted | error | source |"
    yield "|---|---|---|---|---|"
    for row in sizes():
        low = row.predicted.low
        high = row.predicted.high
        shown = _spread(low, high)
        yield (
            f"| {row.name} | {row.published:,} {row.unit} | {shown} "
            f"| {_error(low, high, row.published)} | {row.source} |"
        )


def _speeds_table() -> Iterator[str]:
    yield "| decode, tok/s | published | read a step | at most | predicted | error | source |"
    yield "|---|---|---|---|---|---|---|"
    for row in SPEEDS:
        found = speed.predict_decode_rate(
            row.model(), row.start, context=row.context, sequences=row.sequences
        )
        assert found.likely is not None
        low = found.likely.low
        high = found.likely.high
        yield (
            f"| {row.name} | {_spread(row.low, row.high or row.low)} "
            f"| {_spread(found.read.low / 1e9, found.read.high / 1e9)} GB "
            f"| {found.ceiling.high:.1f} | {_spread(low, high)} "
            f"| {_error(low, high, row.middle)} | {row.source} |"
        )


def _spread(low: float, high: float) -> str:
    digits = 0 if high >= 1000 else 1
    one = f"{low:,.{digits}f}"
    other = f"{high:,.{digits}f}"
    return one if one == other else f"{one} to {other}"


def _error(low: float, high: float, seen: float) -> str:
    if high / low < 1.01:
        return f"{low / seen - 1:+.0%}"
    if low <= seen <= high:
        return "inside"
    return f"{(low if seen < low else high) / seen - 1:+.0%}"


def fitted_terms() -> CostModel:
    """Return the terms that fit the rows of one stream without speculation."""
    samples = []
    for row in SPEEDS:
        if row.fits:
            model = row.model()
            assert model.shape is not None
            read = speed.predict_decode_rate(model, row.start, context=row.context).read.middle
            step = speed.build_decode_step(model.shape, row.start, read)
            samples.append(Sample(step=step, seconds=1 / row.middle))
    return fit_cost_model(samples, source=f"{len(samples)} rows")


def show_terms(made: CostModel) -> None:
    print(
        f"{made.source}: {made.bandwidth / 1e9:.1f} GB/s, {made.part * 1e6:.0f} us a part, "
        f"{made.reduce * 1e6:.0f} us an all-reduce, error {made.error:.1%}"
    )


if __name__ == "__main__":
    if "--terms" in sys.argv:
        show_terms(fitted_terms())
    else:
        print(tables())

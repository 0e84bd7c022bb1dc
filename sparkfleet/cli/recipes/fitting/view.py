"""The output of `recipes.fit`: text, or one JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from sparkfleet.cli.recipes.fitting.values import FitResult, PredictedSpeed
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.tables import create_console, create_table, measure_table
from sparkfleet.fit.interval import Interval
from sparkfleet.fit.memory import Fit, FitAnswer, format_counts
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.requirements import GIB, MemoryRequirements
from sparkfleet.fit.speed import DecodeRate
from sparkfleet.quantities import format_memory
from sparkfleet.resources import format_path

MIB = 1 << 20
COLUMNS = (
    "node",
    "total",
    "available",
    "highest util",
    "vLLM takes",
    "KV cache",
    "max concurrency",
    "max context",
    "tokens in vLLM's log",
)
STYLES = {
    FitAnswer.FITS: "green",
    FitAnswer.CLOSE: "magenta",
    FitAnswer.NOT: "red",
    FitAnswer.UNKNOWN: "yellow",
}


def show_fit_result(result: FitResult, *, output: str) -> None:
    """Print the result on standard output."""
    if output == "json":
        print_document(**_build_fit_document(result))
        return
    out = create_console()
    for line in _format_header(result):
        out.print(line)
    out.print(_build_node_table(result))
    for fit in result.fits.values():
        out.print(f"{fit.room.host}: {fit.sentence}", style=STYLES[fit.answer])
    for line in _format_speeds(result):
        out.print(line)
    if result.published:
        _print_published_speeds(out, result)
    out.print(f"advice: {result.advice.choice}", style="bold")
    for reason in result.advice.reasons:
        out.print(f"  {reason}")


def _format_header(result: FitResult) -> Iterator[str]:
    start_options = result.start
    need = result.need
    if result.recipe.written:
        path = format_path(result.recipe.path)
        yield f"recipe {result.recipe.name} ({path}): {result.model_name}"
    else:
        yield f"{result.model_name}, {result.recipe.description}"
    yield from result.notes
    yield f"requested: {_format_request(start_options, need)}"
    yield f"weights of a rank: {_format_size_range(need.weights)}" + (
        f" (from {result.model.weights.source})" if result.model.weights else ""
    )
    if need.draft.high:
        yield f"draft model: {_format_size_range(need.draft)}"
    yield f"running (activations, CUDA graphs, driver): {_format_size_range(need.running)}"
    if need.sequence_bytes is not None and not need.auto:
        yield (
            f"KV cache of one sequence of {need.length} tokens: "
            f"{_format_bytes(need.sequence_bytes)}"
        )
    if result.model.weights:
        yield (
            f"page cache while it loads: up to {_format_size_range(result.model.weights.stored)}, "
            "which the kernel can reclaim"
        )


def _format_request(start_options: ServeOptions, need: MemoryRequirements) -> str:
    cache = (
        f"{_format_bytes(start_options.kv_bytes)} of KV cache"
        if start_options.kv_bytes
        else f"util {start_options.util:g}"
    )
    size = f"TP={start_options.tp}" + (f", PP={start_options.pp}" if start_options.pp > 1 else "")
    length = f"context {need.length}" if need.length else "context unknown"
    length = "the longest context that fits" if need.auto else length
    return (
        f"{size}, {cache}, {length}, {start_options.sequences} sequences, KV cache "
        f"{start_options.kv_dtype}"
    )


def _build_node_table(result: FitResult) -> Table:
    nodes = create_table(*COLUMNS)
    for fit in result.fits.values():
        memory = fit.room
        available = "?" if memory.available is None else _format_bytes(memory.free)
        counts = (
            _format_count_range(fit.sequences),
            _format_count_range(fit.longest),
            _format_count_range(fit.logged),
        )
        cells = (memory.host, _format_bytes(memory.total), available, f"{memory.util():.2f}")
        nodes.add_row(*cells, _format_size_range(fit.claim), _format_size_range(fit.cache), *counts)
    return nodes


def _format_bytes(count: float) -> str:
    return format_memory(count) if count >= GIB or not count else f"{count / MIB:.0f} MiB"


def _format_size_range(span: Interval | None) -> str:
    if span is None:
        return "?"
    low = _format_bytes(span.low)
    high = _format_bytes(span.high)
    return low if low == high else f"{low.removesuffix(' GiB')} to {high}"


def _format_count_range(span: Interval | None) -> str:
    if span is None:
        return "?"
    return format_counts(span)


def _format_speeds(result: FitResult) -> Iterator[str]:
    if result.need.refusal is not None:
        yield "decode: none, as vLLM refuses this start"
        return
    if result.rate is None:
        yield "decode: unknown: the active weights are not known"
    else:
        who = "one request" if result.requests == 1 else f"{result.requests} concurrent requests"
        yield f"decode, {who}, {result.context} tokens in the cache: {format_rate(result.rate)}"
        terms = result.rate.terms
        yield f"  terms: {terms.source}; error {terms.error:.1%}"


def format_rate(rate: DecodeRate) -> str:
    """Return what is expected of decoding, and the most that memory allows."""
    most = f"{rate.ceiling.high:.1f} tok/s at most (memory-bandwidth limit: 273 GB/s)"
    wide = rate.expected
    return most if wide is None else f"{wide.low:.1f} to {wide.high:.1f} expected, {most}"


def _print_published_speeds(out: Console, result: FitResult) -> None:
    """Print the table; where it does not fit, its sources are a line below it."""
    table = _build_speed_table(result, "source")
    if measure_table(table, out) <= out.width:
        out.print(table)
        return
    out.print(_build_speed_table(result))
    sources = (
        f"{prediction.speed.source}, {prediction.speed.date}" for prediction in result.published
    )
    out.print(f"published by: {'; '.join(dict.fromkeys(sources))}")


def _build_speed_table(result: FitResult, *more: str) -> Table:
    """Return the published speeds with what is predicted for them, the highest first.

    `more` is the head of a further column, of their sources.
    """
    grid = create_table("published", "requests", "context", "predicted", "judged", *more)
    ordered = sorted(
        result.published, key=lambda prediction: prediction.speed.decode or 0, reverse=True
    )
    for prediction in ordered:
        speed = prediction.speed
        span = prediction.rate.expected or prediction.rate.ceiling
        grid.add_row(
            f"{speed.decode:g} tok/s",
            str(speed.requests),
            str(speed.context or "-"),
            f"{span.low:.1f} to {span.high:.1f}",
            _judge_prediction(prediction),
            *(f"{speed.source}, {speed.date}" for _ in more),
        )
    return grid


def _judge_prediction(prediction: PredictedSpeed) -> str:
    span = prediction.rate.expected or prediction.rate.ceiling
    measured = prediction.speed.decode or 0
    if measured > prediction.rate.ceiling.high:
        return "more than these weights allow"
    if measured > span.high:
        return "faster"
    return "as predicted" if span.low <= measured else "slower"


def _build_fit_document(result: FitResult) -> dict[str, Any]:
    return {
        "recipe": result.recipe.name,
        "model": result.model_name,
        "notes": list(result.notes),
        "asked": asdict(result.start),
        "weights": result.model.weights and asdict(result.model.weights),
        "unknown": list(result.need.unknown),
        "sequence_bytes": result.need.sequence_bytes,
        "nodes": {name: _serialize_node_fit(fit) for name, fit in result.fits.items()},
        "decode": result.rate and serialize_rate(result.rate),
        "published": [
            {**asdict(prediction.speed), "predicted": serialize_rate(prediction.rate)}
            for prediction in result.published
        ],
        "advice": asdict(result.advice),
    }


def _serialize_node_fit(fit: Fit) -> dict[str, Any]:
    return {**asdict(fit), "highest_util": fit.room.util()}


def serialize_rate(rate: DecodeRate) -> dict[str, Any]:
    """Return a rate as JSON has it."""
    expected = rate.expected
    return {**asdict(rate), "expected": expected and asdict(expected)}

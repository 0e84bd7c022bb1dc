"""How `recipes.fit` tells what it found: as text, or as one JSON document."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from sparkfleet.cli.tables import console, table
from sparkfleet.fit.memory import Answer, Fit
from sparkfleet.fit.need import GIB, Need
from sparkfleet.fit.options import Start
from sparkfleet.fit.span import Span
from sparkfleet.fit.speed import Rate
from sparkfleet.quantities import show_memory
from sparkfleet.report import json
from sparkfleet.resources import shown

if TYPE_CHECKING:
    from sparkfleet.cli.fits import Compared, Found

MIB = 1 << 20
COLUMNS = (
    "node",
    "has",
    "can be had",
    "highest util",
    "vLLM takes",
    "KV cache",
    "at once",
    "longest",
    "tokens in vLLM's log",
)
STYLES = {
    Answer.FITS: "green",
    Answer.CLOSE: "magenta",
    Answer.NOT: "red",
    Answer.UNKNOWN: "yellow",
}


def show(found: Found, *, output: str) -> None:
    """Print what was found on standard output."""
    if output == "json":
        json.write(json.document(**_content(found)), sys.stdout)
        return
    out = console()
    for line in _head(found):
        out.print(line)
    out.print(_nodes(found))
    for fit in found.fits.values():
        out.print(f"{fit.room.host}: {fit.sentence}", style=STYLES[fit.answer])
    for line in _speeds(found):
        out.print(line)
    out.print(f"advice: {found.advice.choice}", style="bold")
    for reason in found.advice.reasons:
        out.print(f"  {reason}")


def _head(found: Found) -> Iterator[str]:
    asked, need = found.start, found.need
    yield f"recipe {found.recipe.name} ({shown(found.recipe.path)}): {found.model_name}"
    yield from found.notes
    yield f"asked: {_asked(asked, need)}"
    yield f"weights of a rank: {_span(need.weights)}" + (
        f" (from {found.model.weights.source})" if found.model.weights else ""
    )
    if need.draft.high:
        yield f"draft model: {_span(need.draft)}"
    yield f"running (activations, CUDA graphs, driver): {_span(need.running)}"
    if need.one is not None:
        yield f"KV cache of one sequence of {need.length} tokens: {_size(need.one)}"
    if found.model.weights:
        yield (
            f"page cache while it loads: up to {_span(found.model.weights.stored)}, "
            "which the kernel gives back"
        )


def _asked(asked: Start, need: Need) -> str:
    cache = f"{_size(asked.kv_bytes)} of KV cache" if asked.kv_bytes else f"util {asked.util:g}"
    size = f"TP={asked.tp}" + (f", PP={asked.pp}" if asked.pp > 1 else "")
    length = f"context {need.length}" if need.length else "context unknown"
    return f"{size}, {cache}, {length}, {asked.sequences} sequences, KV cache {asked.kv_dtype}"


def _nodes(found: Found) -> Table:
    nodes = table(*COLUMNS)
    for fit in found.fits.values():
        room = fit.room
        available = "?" if room.available is None else _size(room.free)
        counts = (_count(fit.sequences), _count(fit.longest), _count(fit.logged))
        own = (room.host, _size(room.total), available, f"{room.util():.2f}")
        nodes.add_row(*own, _span(fit.claim), _span(fit.cache), *counts)
    return nodes


def _size(count: float) -> str:
    return show_memory(count) if count >= GIB or not count else f"{count / MIB:.0f} MiB"


def _span(span: Span | None) -> str:
    if span is None:
        return "?"
    low, high = _size(span.low), _size(span.high)
    return low if low == high else f"{low.removesuffix(' GiB')} to {high}"


def _count(span: Span | None) -> str:
    if span is None:
        return "?"
    low, high = f"{span.low:,.0f}", f"{span.high:,.0f}"
    return low if low == high else f"{low} to {high}"


def _speeds(found: Found) -> Iterator[str]:
    if found.rate is None:
        yield "decode: cannot tell: the active weights are not known"
    else:
        who = "one answer" if found.requests == 1 else f"{found.requests} answers together"
        yield f"decode, {who}, {found.context} tokens in the cache: {told(found.rate)}"
        terms = found.rate.terms
        yield f"  terms: {terms.source}; error {terms.error:.1%}"
    for one in found.published:
        yield f"  published: {_published(one)}"


def told(found: Rate) -> str:
    """Return what is expected of decoding, and the most that memory allows."""
    most = f"{found.ceiling.high:.1f} tok/s at most (the memory's 273 GB/s)"
    wide = found.expected
    return most if wide is None else f"{wide.low:.1f} to {wide.high:.1f} expected, {most}"


def _published(one: Compared) -> str:
    speed, wide = one.speed, one.rate.expected or one.rate.ceiling
    several = f", {speed.requests} answers" if speed.requests > 1 else ""
    depth = f", {speed.context} tokens before" if speed.context else ""
    seen = speed.decode or 0
    place = "as predicted" if wide.low <= seen <= wide.high else "predicted"
    if seen > one.rate.ceiling.high:
        place = "more than these weights allow; predicted"
    return (
        f"{seen:g} tok/s{several}{depth} ({speed.source}, {speed.date}): "
        f"{place}: {wide.low:.1f} to {wide.high:.1f}"
    )


def _content(found: Found) -> dict[str, Any]:
    return {
        "recipe": found.recipe.name,
        "model": found.model_name,
        "notes": list(found.notes),
        "asked": asdict(found.start),
        "weights": found.model.weights and asdict(found.model.weights),
        "unknown": list(found.need.unknown),
        "sequence_bytes": found.need.one,
        "nodes": {name: _node(fit) for name, fit in found.fits.items()},
        "decode": found.rate and content(found.rate),
        "published": [
            {**asdict(one.speed), "predicted": content(one.rate)} for one in found.published
        ],
        "advice": asdict(found.advice),
    }


def _node(fit: Fit) -> dict[str, Any]:
    return {**asdict(fit), "highest_util": fit.room.util()}


def content(rate: Rate) -> dict[str, Any]:
    """Return a rate as JSON has it."""
    expected = rate.expected
    return {**asdict(rate), "expected": expected and asdict(expected)}

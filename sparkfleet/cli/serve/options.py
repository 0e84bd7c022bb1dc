"""Options of `serve.*`."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.cli.options import Options, duration, flag, number, option
from sparkfleet.cli.recipes.options import parse_tokens

MAX_REQUESTS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions(Options):
    """Options of `serve.watch`; `every` is in seconds."""

    every: float = option("seconds between two samples", duration(least=0.1), default=2.0)
    count: int | None = option("stop after this many samples", number())
    once: bool = flag("one sample, the same as --count 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeBenchOptions(Options):
    """Options of `serve.bench`; None is chosen to fit the deployment."""

    requests: int | None = option(
        "concurrent requests, after one alone; 4 unless it serves fewer", number(most=MAX_REQUESTS)
    )
    context: int | None = option(
        "tokens of a prompt, such as 2048 or 16K", parse_tokens, value="TOKENS"
    )
    answer: int = option("tokens of an answer", number(), default=128)
    rounds: int = option(
        "how many times each is measured; the median is reported", number(), default=3
    )

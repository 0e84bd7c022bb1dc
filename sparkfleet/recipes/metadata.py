"""Metadata of a recipe, in addition to the variables that it sets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokePrompt:
    """A smoke prompt: what is asked, and a text that a right answer holds."""

    ask: str
    expect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The weights, as their source describes them; None is what it leaves out.

    `format` is how they are quantized (modelopt, compressed-tensors, fp8, mxfp4, bf16), `size`
    what they take on disk in bytes, `parameters` how many there are and `active` how many each
    token reads. `architecture` is the name in the model's config.json.
    """

    format: str | None = None
    size: int | None = None
    parameters: int | None = None
    active: int | None = None
    architecture: str | None = None
    moe: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLines:
    """Texts that the log of a correct start contains, and texts that indicate a wrong one."""

    expect: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A published measurement; None is what its source leaves out.

    `decode` and `prefill` are tokens a second of all `requests` together, `ttft` seconds to the
    first token, `context` tokens in the cache before. `date` is YYYY-MM or YYYY-MM-DD.
    """

    nodes: int
    source: str
    date: str
    decode: float | None = None
    prefill: float | None = None
    ttft: float | None = None
    requests: int = 1
    context: int | None = None
    note: str = ""

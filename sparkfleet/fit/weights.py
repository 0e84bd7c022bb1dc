"""What of a model's weights stays in memory, and what every token has to read; pure.

Three sources, the best one that is there: the tensors themselves, the shape in `config.json`, and
the figures of a recipe.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.parameters import Role, parts, share
from sparkfleet.fit.precision import converted, part_bytes
from sparkfleet.fit.span import NOTHING, CannotTellError, Span

SIXTEEN = ("BF16", "F16")
SMALLEST_PLAIN = 1.5  # bytes a parameter; files with more are of 16 bits
ROUTED = re.compile(r"\.(experts|switch_mlp)\.")
TOWER = re.compile(r"(^|[._])(vision|visual|audio|image|multi_modal|mm)[._]|_projector\.")
DRAFT = re.compile(r"(^|\.)(mtp|nextn|eagle)[._]")
EMBEDDING = re.compile(r"(embed_tokens|embeddings|word_embeddings|wte|tok_embeddings)\.weight$")
HEAD = re.compile(r"(^|\.)(lm_head|output|embed_out)\.")
ROUTER = re.compile(r"(router|\.gate)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """Tensors whose names differ in numbers only: `size` in bytes, as stored."""

    name: str
    dtype: str
    dimensions: int
    count: int
    elements: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Bytes over all ranks: what stays in memory, what every token reads, all routed experts.

    `drafts` of what stays is the built-in MTP head. `stored` is what the files hold; more than
    what stays where weights are converted while they load. `source` says how it is known.
    """

    resident: Span
    always: Span
    routed: Span
    drafts: Span
    stored: Span
    source: str

    def read(self, shape: Architecture | None, tokens: int = 1) -> Span:
        """Return the bytes that one step reads to make or check `tokens` tokens at once.

        Raises CannotTellError where there are experts and nobody says how many a token takes.
        """
        if not self.routed.high:
            return self.always
        taken = share(shape.experts if shape else None, tokens)
        return self.always + self.routed.times(taken)


def from_tensors(
    tensors: Sequence[Tensors], shape: Architecture, online: str | None = None
) -> Weights:
    """Return the weights that `tensors` are; raises CannotTellError where there are none."""
    if not tensors:
        raise CannotTellError("cannot tell the weights: there are no safetensors to read")
    tied = not any(role_of(row) is Role.HEAD for row in tensors)
    sums = dict.fromkeys(("resident", "always", "routed", "drafts"), 0.0)
    for row in tensors:
        role, size = role_of(row), _loaded(row, shape, online)
        sums["resident"] += size
        if role is Role.ROUTED:
            sums["routed"] += size
        elif role is Role.DRAFT:
            sums["drafts"] += size
        elif role is not Role.TOWER and (role is not Role.EMBEDDING or tied):
            sums["always"] += size
    return Weights(
        **{name: Span.of(total) for name, total in sums.items()},
        stored=Span.of(sum(row.size for row in tensors)),
        source="the tensors",
    )


def role_of(row: Tensors) -> Role:
    """Return the role of tensors, by their name; what is in no list is read for every token."""
    table = (
        (Role.DRAFT, DRAFT),
        (Role.TOWER, TOWER),
        (Role.EMBEDDING, EMBEDDING),
        (Role.HEAD, HEAD),
        (Role.ROUTED, ROUTED),
        (Role.ROUTER, ROUTER),
    )
    return next((role for role, pattern in table if pattern.search(row.name)), Role.DENSE)


def _loaded(row: Tensors, shape: Architecture, online: str | None) -> float:
    """Return the bytes of tensors once loaded: those that --quantization converts are smaller."""
    plain = row.dtype not in SIXTEEN or row.dimensions < 2 or shape.quantization
    if plain or role_of(row) not in (Role.DENSE, Role.ROUTED):
        return row.size
    made = converted(online)
    return row.size if made is None else row.elements * made


def from_shape(shape: Architecture, online: str | None = None) -> Weights:
    """Return the weights of a model of this shape; raises CannotTellError."""
    rows = [(part.role, part_bytes(shape, part, online)) for part in parts(shape)]
    seldom = {Role.ROUTED, Role.DRAFT, Role.TOWER}
    if shape.tied is not True:
        seldom.add(Role.EMBEDDING)
    stored = sum((part_bytes(shape, part) for part in parts(shape)), NOTHING)
    return Weights(
        resident=_sum(rows, set(Role)),
        always=_sum(rows, set(Role) - seldom),
        routed=_sum(rows, {Role.ROUTED}),
        drafts=_sum(rows, {Role.DRAFT}),
        stored=stored,
        source="the shape in config.json",
    )


def _sum(rows: Sequence[tuple[Role, Span]], roles: set[Role]) -> Span:
    return sum((size for role, size in rows if role in roles), NOTHING)


def from_figures(
    size: int, parameters: int | None, active: int | None, online: str | None = None
) -> Weights:
    """Return the weights of which only the size on disk and the counts of parameters are known.

    The active ones have at least the mean size, since what experts are not is quantized last;
    where they are converted while loading, as few bytes as that gives.
    """
    made = converted(online) if parameters and size / parameters > SMALLEST_PLAIN else None
    least = size if made is None else min(size, (parameters or 0) * made)
    read = Span.of(0, size)
    if parameters and active:
        read = Span.of(least / parameters * active, min(size, 2.0 * active))
    return Weights(
        resident=Span.of(least, size),
        always=read,
        routed=NOTHING,
        drafts=NOTHING,
        stored=Span.of(size),
        source="the recipe's figures",
    )

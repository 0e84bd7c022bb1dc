"""Measured rates as a plot: bars for ways, curves for collectives; SVG, pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from sparkfleet.links.bandwidth.collective import Collective
from sparkfleet.links.bandwidth.expectation import estimate_cable_gbps
from sparkfleet.links.bandwidth.rate_bands import GOOD
from sparkfleet.links.bandwidth.rates import MeasuredRate, Samples
from sparkfleet.links.drawing.svg_map import COLOURS
from sparkfleet.model import Host, Severity

LABEL = 420
BAR = 420
MARGIN = 20
LINE = 20  # px: texts, the longest bar, the rim, a row
CURVES = 260  # px of height
INKS = ("#1565c0", "#6a1b9a")  # of the collectives, in their order


def render_rates_svg(samples: Samples, collective: Collective | None, hosts: Sequence[Host]) -> str:
    """Return the plot as an SVG document.

    A bar ends in the rate of a way; its tick is the least that is good. Below it, bus bandwidth
    over the size of the message.
    """
    top = MARGIN + LINE * (len(samples.rates) + 2)
    parts = [*_draw_bars(samples.rates, {host.name: host for host in hosts})]
    if collective:
        parts += _draw_curves(collective, top)
    width = LABEL + BAR + 5 * MARGIN
    height = top + (CURVES + 3 * LINE if collective else 0)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(parts) + "\n"
        "</svg>\n"
    )


def _draw_bars(rates: Sequence[MeasuredRate], hosts: dict[str, Host]) -> Iterator[str]:
    yield _draw_text(MARGIN, MARGIN + LINE / 2, "Gb/s between hosts", bold=True)
    least = [_compute_least_rate(rate, hosts) for rate in rates]
    most = max([*(rate.gbps for rate in rates), *least], default=1) or 1
    for at, (rate, good) in enumerate(zip(rates, least, strict=True), 1):
        y = MARGIN + LINE * at
        way = f"{rate.host} to {rate.peer}: {', '.join(rate.rails)}"
        length = rate.gbps / most * BAR
        tick = LABEL + good / most * BAR
        colour = COLOURS[Severity.OK if rate.gbps >= good else Severity.ERROR]
        yield _draw_text(MARGIN, y + LINE / 2, way)
        yield f'<rect x="{LABEL}" y="{y}" width="{length:.0f}" height="14" fill="{colour}"/>'
        yield _draw_line((tick, y - 2), (tick, y + 16), "#333")
        yield _draw_text(LABEL + length + 6, y + LINE / 2, rate.why or f"{rate.gbps:.1f}")


def _compute_least_rate(rate: MeasuredRate, hosts: dict[str, Host]) -> float:
    return GOOD * estimate_cable_gbps([hosts[rate.host], hosts[rate.peer]], rails=len(rate.rails))


def _draw_curves(collective: Collective, top: float) -> Iterator[str]:
    rows = [row for curve in collective.rows.values() for row in curve]
    most = max(row.busbw for row in rows) or 1
    sizes = sorted({row.size for row in rows})
    first = math.log2(sizes[0])
    last = math.log2(sizes[-1])
    bottom = top + LINE + CURVES
    title = f"GB/s of {' and '.join(collective.rows)} by {collective.backend}"
    yield _draw_text(MARGIN, top, title, bold=True)
    yield _draw_line((MARGIN * 4, bottom), (MARGIN * 4 + BAR, bottom), "#333")
    yield _draw_text(MARGIN, bottom - CURVES + LINE / 2, f"{most:.1f}")
    for size in sizes:
        x = _scale_size(size, first, last)
        yield _draw_text(x - 14, bottom + LINE, f"{size / 2**20:g} MiB")
    for ink, (name, curve) in zip(INKS, collective.rows.items(), strict=False):
        dots = [(_scale_size(x.size, first, last), bottom - x.busbw / most * CURVES) for x in curve]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in dots)
        yield f'<polyline points="{path}" fill="none" stroke="{ink}" stroke-width="2"/>'
        yield _draw_text(dots[-1][0] + 8, dots[-1][1], name)


def _scale_size(size: int, first: float, last: float) -> float:
    return MARGIN * 4 + (math.log2(size) - first) / max(last - first, 1) * BAR


def _draw_text(x: float, y: float, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{weight}>{escape(text)}</text>'


def _draw_line(start: tuple[float, float], end: tuple[float, float], colour: str) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="{colour}"/>'

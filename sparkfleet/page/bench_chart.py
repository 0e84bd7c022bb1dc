"""The history of `serve.bench` as a chart: tokens a second over time; SVG, pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from sparkfleet.launch.endpoint.bench_history import BenchEntry
from sparkfleet.page.content import clean_page_text
from sparkfleet.page.tables import format_time

WIDTH = 720
HEIGHT = 260
LEFT = 60
RIGHT = 16
TOP = 16
BOTTOM = 34
STEPS = 4  # lines of the grid above zero
MARKS = ("circle", "square", "diamond", "triangle")  # by series: not by the colour alone
MAX_SERIES = len(MARKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The results of one kind, with the shape of its marks."""

    name: str
    mark: str
    entries: tuple[BenchEntry, ...]


def group_series(entries: Sequence[BenchEntry]) -> tuple[Series, ...]:
    """Return results by recipe, hosts and requests at once: those with the newest results."""
    kinds: dict[tuple[str, int, int], list[BenchEntry]] = {}
    for entry in entries:
        kinds.setdefault((entry.recipe, entry.nodes, entry.requests), []).append(entry)
    newest = sorted(kinds.items(), key=lambda item: -item[1][-1].at)[:MAX_SERIES]
    return tuple(
        Series(name=_name_series(*kind), mark=mark, entries=tuple(found))
        for (kind, found), mark in zip(newest, MARKS, strict=False)
    )


def _name_series(recipe: str, nodes: int, requests: int) -> str:
    hosts = f"{nodes:.0f} host{'' if nodes == 1 else 's'}"
    return clean_page_text(f"{recipe}, {hosts}, {requests:.0f} at once")


def render_bench_svg(series: Sequence[Series]) -> str:
    """Return the chart as an SVG element; it needs one result at least."""
    entries = [entry for line in series for entry in line.entries]
    most = _round_up(max(entry.decode for entry in entries))
    first = min(entry.at for entry in entries)
    last = max(entry.at for entry in entries)
    parts = [*_draw_grid(most), *_draw_times(first, last)]
    for number, line in enumerate(series, 1):
        dots = [(_scale_time(x.at, first, last), _scale_rate(x.decode, most)) for x in line.entries]
        parts += _draw_series(line, dots, number)
    label = "Tokens per second measured by serve.bench, over time"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{label}" class="chart">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def render_mark_svg(series: Series, number: int) -> str:
    """Return the mark of a series, for the legend."""
    mark = _draw_mark(series.mark, (8, 8), "")
    return f'<svg viewBox="0 0 16 16" class="key series{number}" aria-hidden="true">{mark}</svg>'


def _draw_grid(most: float) -> Iterator[str]:
    for step in range(STEPS + 1):
        value = most * step / STEPS
        y = _scale_rate(value, most)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" class="grid"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_format_rate(value)}</text>'


def _format_rate(value: float) -> str:
    """Return a rate in few characters, which fit on a telephone too."""
    return f"{value:g}" if value < 10_000 else f"{value / 1000:g}k"


def _draw_times(first: float, last: float) -> Iterator[str]:
    y = HEIGHT - 10
    yield f'<text x="{LEFT}" y="{y}">{_format_day(first)}</text>'
    if last > first:
        x = WIDTH - RIGHT
        yield f'<text x="{x}" y="{y}" text-anchor="end">{_format_day(last)}</text>'


def _draw_series(series: Series, dots: Sequence[tuple[float, float]], number: int) -> Iterator[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
    yield f'<g class="series{number}">'
    if len(dots) > 1:
        yield f'<polyline points="{path}" fill="none" class="line"/>'
    for dot, entry in zip(dots, series.entries, strict=True):
        disturbed = ", disturbed" if entry.disturbed else ""
        title = f"{series.name}: {entry.decode:.1f} tokens/s, {format_time(entry.at)}{disturbed}"
        yield _draw_mark(series.mark, dot, title)
    yield "</g>"


def _draw_mark(mark: str, place: tuple[float, float], title: str) -> str:
    x, y = place
    inside = f"<title>{escape(title)}</title>" if title else ""
    if mark == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="mark">{inside}</circle>'
    corners = {
        "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        "diamond": ((0, -5), (5, 0), (0, 5), (-5, 0)),
        "triangle": ((0, -5), (5, 4), (-5, 4)),
    }[mark]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon points="{points}" class="mark">{inside}</polygon>'


def _scale_time(at: float, first: float, last: float) -> float:
    width = WIDTH - LEFT - RIGHT - 16
    return LEFT + 8 + (width * (at - first) / (last - first) if last > first else width / 2)


def _scale_rate(rate: float, most: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / most


def _round_up(value: float) -> float:
    """Return a round number from `value` up: 1, 2, 4 or 8 times a power of ten, 1 for 0."""
    size = 10.0 ** len(str(int(value))) / 10
    return next((size * step for step in (1, 2, 4, 8, 10) if size * step >= value), 1.0)


def _format_day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))

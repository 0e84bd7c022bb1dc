"""The cable map: rows for a table, and a drawing; pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from sparkfleet.links.bandwidth.rates import MeasuredRate
from sparkfleet.links.model import Cable, Fabric, Rail, Topology
from sparkfleet.model import Severity, Verdict

WIDTH = 220  # px of a host's box
HUB = 140  # px of the switch's
LINE = 16  # px between lines of text
COLOURS = {Severity.OK: "#2e7d32", Severity.WARNING: "#b26a00", Severity.ERROR: "#c62828"}
WORST = (Severity.ERROR, Severity.WARNING)
HALO = ' stroke="white" stroke-width="6" class="halo"'  # clears the ground below a text

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CableMapRow:
    """One rail in use of one host: a line of the cable map; MTU in bytes, speed in Mb/s."""

    host: str
    port: int | None
    netdev: str
    hca: str
    address: str
    mtu: int | None
    speed: int | None
    carrier: bool
    peers: tuple[str, ...]


def build_map_rows(fabric: Fabric) -> tuple[CableMapRow, ...]:
    """Return the cable map, host by host; `peers` are the hosts in the rail's subnet."""
    return tuple(
        CableMapRow(
            host=host,
            port=rail.port,
            netdev=rail.name,
            hca=rail.hca.name if rail.hca else "",
            address=str(rail.address),
            mtu=rail.netdev.mtu,
            speed=rail.netdev.speed,
            carrier=rail.netdev.carrier,
            peers=_list_subnet_peers(fabric, rail),
        )
        for host in fabric.hosts
        for rail in fabric.rails[host]
    )


def _list_subnet_peers(fabric: Fabric, rail: Rail) -> tuple[str, ...]:
    return tuple(
        peer
        for peer in fabric.hosts
        if peer != rail.host
        and any(candidate.network == rail.network for candidate in fabric.rails[peer])
    )


def render_map_svg(
    fabric: Fabric,
    verdicts: Sequence[Verdict] = (),
    *,
    rates: Sequence[MeasuredRate] = (),
    stacked: bool = False,
) -> str:
    """Return the cable map as an SVG document; a cable is as red as the verdicts on its rails.

    A cable has its measured `rates` as text. Two hosts are side by side, or `stacked` for a narrow
    screen. Each element has a class, so that a page can give it other colours.
    """
    places, (width, height) = _place_hosts(fabric, stacked=stacked)
    hub = (width / 2, height / 2) if fabric.topology is Topology.SWITCH else None
    parts = [*_draw_cables(fabric, places, hub, verdicts, rates=rates)]
    if hub:
        networks = dict.fromkeys(rail.network for rail in fabric.rails[fabric.hosts[0]])
        parts += _draw_box(hub, HUB, ("switch", *map(str, networks)))
    for host, place in places.items():
        parts += _draw_box(
            place, WIDTH, (_format_host_title(fabric, host), *_format_rail_labels(fabric, host))
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width:g}" height="{height:g}" fill="white" class="ground"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _place_hosts(fabric: Fabric, *, stacked: bool) -> tuple[dict[str, Point], Point]:
    """Return the middle of each host's box, and the size: two side by side, more on a circle."""
    hosts = fabric.order or fabric.hosts
    if len(hosts) <= 2 and fabric.topology is not Topology.SWITCH:
        if stacked:
            places = {host: (150.0, 60.0 + 260 * at) for at, host in enumerate(hosts)}
            return places, (300.0, 120 + 260.0 * (len(hosts) - 1))
        places = {host: (140.0 + 440 * at, 90.0) for at, host in enumerate(hosts)}
        return places, (280 + 440.0 * (len(hosts) - 1), 180.0)
    radius = max(320.0, len(hosts) * WIDTH / 5)
    middle = radius + WIDTH / 2 + 20
    turns = [2 * math.pi * at / len(hosts) - math.pi / 2 for at in range(len(hosts))]
    spots = [(middle + radius * math.cos(turn), middle + radius * math.sin(turn)) for turn in turns]
    return dict(zip(hosts, spots, strict=True)), (2 * middle, 2 * middle)


def _draw_cables(
    fabric: Fabric,
    places: dict[str, Point],
    hub: Point | None,
    verdicts: Sequence[Verdict],
    *,
    rates: Sequence[MeasuredRate],
) -> Iterator[str]:
    if hub:
        for host in fabric.hosts:
            for cage in fabric.cages(host):
                severity = _find_worst(cage.rails, verdicts)
                yield from _draw_cable_line(places[host], hub, severity, (f"port {cage.port}",))
        return
    for cable in fabric.cables:
        start, end = cable.ends
        severity = _find_worst((*start.rails, *end.rails), verdicts)
        names = (f"port {start.port} - port {end.port}", *map(str, cable.networks))
        label = (*names, *_format_rates(cable, rates))
        yield from _draw_cable_line(places[start.host], places[end.host], severity, label)


def _format_rates(cable: Cable, rates: Sequence[MeasuredRate]) -> Iterator[str]:
    """Yield the rate of each direction over all rails of a cable."""
    names = {end.host: {rail.name for rail in end.rails} for end in cable.ends}
    for rate in rates:
        is_between = {rate.host, rate.peer} == names.keys()
        if rate.whole and is_between and set(rate.rails) <= names[rate.host]:
            yield f"{rate.host} to {rate.peer}: {rate.why or f'{rate.gbps:.1f} Gb/s'}"


def _find_worst(rails: Sequence[Rail], verdicts: Sequence[Verdict]) -> Severity:
    names = {(rail.host, name) for rail in rails for name in _list_device_names(rail)}
    severities = {
        verdict.severity
        for verdict in verdicts
        if any((verdict.host, word.strip(",:")) in names for word in verdict.subject.split())
    }
    return next((severity for severity in WORST if severity in severities), Severity.OK)


def _list_device_names(rail: Rail) -> tuple[str, ...]:
    return (rail.name, rail.hca.name) if rail.hca else (rail.name,)


def _draw_cable_line(
    start: Point, end: Point, severity: Severity, label: tuple[str, ...]
) -> Iterator[str]:
    yield (
        f'<line x1="{start[0]:.0f}" y1="{start[1]:.0f}" x2="{end[0]:.0f}" y2="{end[1]:.0f}" '
        f'stroke="{COLOURS[severity]}" stroke-width="4" class="cable {severity}"/>'
    )
    if severity is not Severity.OK:
        label = (*label, str(severity))  # not by the colour alone
    half = (len(label) + 1) // 2
    x, y = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    shift = LINE * (len(label) / 4 + 0.75)  # the cable stays visible between the halves
    for style in (HALO, ""):
        yield from _draw_text_lines((x, y - shift), label[:half], style)
        yield from _draw_text_lines((x, y + shift), label[half:], style, is_titled=False)


def _format_host_title(fabric: Fabric, host: str) -> str:
    return f"{host}  {fabric.address(host) or 'no address'}"


def _format_rail_labels(fabric: Fabric, host: str) -> Iterator[str]:
    for rail in fabric.rails[host]:
        yield f"{rail.name} {rail.hca.name}" if rail.hca else rail.name


def _draw_box(place: Point, width: int, lines: tuple[str, ...]) -> Iterator[str]:
    """Yield a box that fits its lines; the first is the title."""
    height = LINE * (len(lines) + 1)
    yield (
        f'<rect x="{place[0] - width / 2:.0f}" y="{place[1] - height / 2:.0f}" width="{width}" '
        f'height="{height}" rx="8" fill="#f5f7f2" stroke="#555" class="box"/>'
    )
    yield from _draw_text_lines(place, lines, "")


def _draw_text_lines(
    place: Point, lines: tuple[str, ...], style: str, *, is_titled: bool = True
) -> Iterator[str]:
    top = place[1] - LINE * (len(lines) - 1) / 2 + 4
    for at, text in enumerate(lines):
        bold = ' font-weight="bold"' if at == 0 and is_titled else ""
        yield (
            f'<text x="{place[0]:.0f}" y="{top + LINE * at:.0f}" text-anchor="middle"'
            f"{bold}{style}>{escape(text)}</text>"
        )

"""The page as HTML: one self-contained file, or one that a server keeps up to date.

The policy in it (CSP) lets the browser use the styles and the script of sparkfleet alone, by their
hashes, so that a text of a host could run nothing even where an escape failed.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterator
from typing import Any

from sparkfleet.links.drawing.svg_map import render_map_svg
from sparkfleet.links.model import Topology
from sparkfleet.page import live_tables, static_tables
from sparkfleet.page.bench_chart import group_series, render_bench_svg, render_mark_svg
from sparkfleet.page.content import LinkMap, PageContent, clean_drawing, clean_page_text
from sparkfleet.page.tables import format_time
from sparkfleet.templating import find_template, render_html

SHELL = "page.html.j2"
BODY = "page-body.html.j2"
STYLE = "page.css"
SCRIPT = "page.js"
PAIR = 2  # hosts that are drawn side by side, or one below the other on a narrow screen


def render_page(content: PageContent, *, live: bool = False) -> str:
    """Return the whole page; a `live` one has the script that follows the server's events."""
    variables = {
        "cluster": clean_page_text(content.cluster),
        "policy": build_policy(live=live),
        "style": read_asset(STYLE),
        "script": read_asset(SCRIPT) if live else "",
        "body": render_body(content, live=live),
    }
    return render_html(SHELL, variables)


def render_body(content: PageContent, *, live: bool = False) -> str:
    """Return the content of the page, which a live page replaces as a whole."""
    background = content.background
    series = group_series(background.bench)
    links = background.links
    variables: dict[str, Any] = {
        "cluster": clean_page_text(content.cluster),
        "version": clean_page_text(content.version),
        "at": content.at,
        "time": format_time(content.at),
        "live": live,
        "summary": live_tables.build_summary(content),
        "served": list(_list_served(content)),
        "ranks": live_tables.build_rank_table(content),
        "hosts": live_tables.build_host_table(content),
        "maps": list(_draw_maps(links)) if links else [],
        "no_links": clean_page_text(background.missing.get("links", "The links were not read.")),
        "link_tables": [
            build(links)
            for build in (
                static_tables.build_rate_table,
                static_tables.build_rail_table,
                static_tables.build_verdict_table,
            )
            if links
        ],
        "settings": static_tables.build_setting_table(background),
        "chart": render_bench_svg(series) if series else "",
        "legend": [(line.name, render_mark_svg(line, at)) for at, line in enumerate(series, 1)],
        "bench": static_tables.build_bench_table(background.bench),
        "durations": list(static_tables.build_duration_tables(background)),
        "events": live_tables.build_event_table(content),
        "findings": static_tables.build_finding_table(
            background.diagnosis, background.missing.get("findings", "")
        ),
        "versions": static_tables.build_version_table(background, content.hosts),
    }
    return render_html(BODY, variables)


def _list_served(content: PageContent) -> Iterator[tuple[str, str]]:
    served = content.background.served
    if served is None:
        return
    sizes = f"TP {served.tp}" + (f", PP {served.pp}" if served.pp > 1 else "")
    yield "model", clean_page_text(served.model)
    yield "recipe", clean_page_text(served.recipe)
    yield "endpoint", clean_page_text(served.url)
    yield "size", clean_page_text(f"{sizes}, {len(served.hosts)} of {len(content.hosts)} hosts")
    yield "executor", clean_page_text(served.executor or "none: one rank")
    yield "deployment", clean_page_text(served.deployment)


def _draw_maps(links: LinkMap) -> Iterator[tuple[str, str]]:
    """Yield drawings with their class: a wide one, and for two hosts a narrow one."""
    rates = links.measured.rates if links.measured else ()
    wide = render_map_svg(links.fabric, links.verdicts, rates=rates)
    if len(links.fabric.hosts) > PAIR or links.fabric.topology is Topology.SWITCH:
        yield "only", clean_drawing(wide)
        return
    yield "wide", clean_drawing(wide)
    narrow = render_map_svg(links.fabric, links.verdicts, rates=rates, stacked=True)
    yield "narrow", clean_drawing(narrow)


def build_policy(*, live: bool) -> str:
    """Return the content security policy of the page."""
    parts = [
        "default-src 'none'",
        f"style-src '{_hash_asset(STYLE)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    if live:
        parts += [f"script-src '{_hash_asset(SCRIPT)}'", "connect-src 'self'"]
    return "; ".join(parts)


@functools.cache
def read_asset(name: str) -> str:
    """Return a style or a script of the page."""
    return find_template(name).read_text(encoding="utf-8")


def _hash_asset(name: str) -> str:
    digest = hashlib.sha256(read_asset(name).encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"

"""A dashboard of a cluster for Grafana; pure.

The form is the JSON model of a dashboard (https://grafana.com/docs/grafana/latest/dashboards/),
with the fields of the schema that Grafana publishes as the package @grafana/schema. Its metrics are
those of vLLM (https://docs.vllm.ai/en/latest/usage/metrics.html) and of the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sparkfleet.page.panels import PANELS, WHERE, Panel

SCHEMA = 39  # of the dashboard; newer releases of Grafana migrate it
COLUMNS = 24  # of Grafana's grid
SOURCE = {"type": "prometheus", "uid": "${source}"}


def build_dashboard(cluster: str) -> dict[str, Any]:
    """Return the dashboard; `cluster` is the one that it shows first."""
    return {
        "annotations": {"list": []},
        "editable": True,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "links": [],
        "panels": list(_place_panels()),
        "refresh": "30s",
        "schemaVersion": SCHEMA,
        "tags": ["sparkfleet", "vllm"],
        "templating": {"list": _list_variables(cluster)},
        "time": {"from": "now-6h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "title": "sparkfleet cluster",
        "uid": "sparkfleet-cluster",
        "version": 1,
        "weekStart": "",
    }


def format_dashboard(cluster: str) -> str:
    """Return the text of the file."""
    return json.dumps(build_dashboard(cluster), indent=2) + "\n"


def _place_panels() -> Iterator[dict[str, Any]]:
    """Yield the panels from left to right, row by row; those of a row have one height."""
    x = y = row = 0
    for number, panel in enumerate(PANELS, 1):
        if x + panel.width > COLUMNS:
            x = 0
            y += row
        row = panel.height
        place = {"h": panel.height, "w": panel.width, "x": x, "y": y}
        yield _build_panel(number, panel, place)
        x += panel.width


def _build_panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "datasource": SOURCE,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "mappings": _build_mappings(panel)},
            "overrides": [],
        },
        "gridPos": place,
        "id": number,
        "options": _build_panel_options(panel.kind),
        "targets": [
            {"datasource": SOURCE, "expr": query, "legendFormat": legend, "refId": chr(65 + at)}
            for at, (query, legend) in enumerate(panel.queries)
        ],
        "title": panel.title,
        "type": panel.kind,
    }


def _build_mappings(panel: Panel) -> list[dict[str, Any]]:
    if not panel.mappings:
        return []
    options = {
        value: {"text": text, "color": colour, "index": at}
        for at, (value, text, colour) in enumerate(panel.mappings)
    }
    return [{"type": "value", "options": options}]


def _build_panel_options(kind: str) -> dict[str, Any]:
    if kind == "stat":
        reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
        return {"reduceOptions": reduce, "textMode": "value_and_name", "graphMode": "none"}
    legend = {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "none"}}


def _list_variables(cluster: str) -> list[dict[str, Any]]:
    chosen = {"selected": True, "text": cluster, "value": cluster}
    everything = {"selected": True, "text": "All", "value": "$__all"}
    hosts = f"label_values(sparkfleet_host_reached{{{WHERE}}}, host)"
    clusters = "label_values(sparkfleet_health_state, cluster)"
    return [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {**_build_query_variable("cluster", clusters), "current": chosen},
        {
            **_build_query_variable("host", hosts),
            "current": everything,
            "includeAll": True,
            "multi": True,
        },
    ]


def _build_query_variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # whenever the time range changes
        "sort": 1,  # by name
    }

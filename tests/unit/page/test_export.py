"""Targets for Prometheus, and the dashboard for Grafana."""

from __future__ import annotations

import json
import re
from itertools import combinations

from sparkfleet.onhost.shared.counters import COUNTERS
from sparkfleet.page.dashboard import COLUMNS, build_dashboard, format_dashboard
from sparkfleet.page.metrics import list_cluster_metrics, list_host_metrics
from sparkfleet.page.targets import format_targets, list_targets
from tests.pages import HOSTS, build_content

PATHS = [(name, f"/metrics/hosts/{name}") for name in (*HOSTS, "spark-03")]


def test_each_rank_and_host_is_a_target() -> None:
    served = build_content().background.served
    groups = list(
        list_targets(
            "sparks", PATHS, page="127.0.0.1:8090", vllm="192.168.1.11:8000", served=served
        )
    )
    assert json.loads(format_targets(groups)) == groups
    vllm, cluster, *hosts = groups
    assert vllm["targets"] == ["192.168.1.11:8000"]
    assert vllm["labels"]["model"] == "gemma4-31b"
    assert vllm["labels"]["__metrics_path__"] == "/metrics"
    assert cluster["labels"]["__metrics_path__"] == "/metrics/cluster"
    labels = [group["labels"] for group in hosts]
    assert [(each["host"], each["role"], each.get("rank")) for each in labels] == [
        ("spark-01", "head", "0"),
        ("spark-02", "worker", "1"),
        ("spark-03", "spare", None),
    ]
    assert {group["targets"][0] for group in hosts} == {"127.0.0.1:8090"}


def test_the_names_and_values_of_labels_are_those_that_prometheus_takes() -> None:
    for group in list_targets("sparks", PATHS, page="a:1", vllm="b:2", served=None):
        assert group.keys() == {"targets", "labels"}
        assert all(re.fullmatch(r"[a-zA-Z_]\w*", name) for name in group["labels"])
        assert all(isinstance(value, str) for value in group["labels"].values())


def list_queries() -> list[str]:
    return [
        target["expr"]
        for panel in build_dashboard("sparks")["panels"]
        for target in panel["targets"]
    ]


def test_each_query_is_about_a_metric_that_exists() -> None:
    content = build_content()
    families = (*list_cluster_metrics(content), *list_host_metrics(content, content.hosts))
    vllm = {name.removesuffix("_count") for name in COUNTERS}
    known = {family.name for family in families} | vllm
    for query in list_queries():
        names = re.findall(r"(?:sparkfleet_|vllm:)\w+", query)
        assert names, query
        assert {name.removesuffix("_bucket") for name in names} <= known, query
        assert query.count("(") == query.count(")")
        assert query.count("{") == query.count("}")


def test_the_dashboard_has_the_shape_that_grafana_imports() -> None:
    dashboard = json.loads(format_dashboard("sparks"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= COLUMNS for panel in panels)
    assert not any(overlap(a["gridPos"], b["gridPos"]) for a, b in combinations(panels, 2))
    assert {panel["type"] for panel in panels} == {"stat", "timeseries"}
    names = [variable["name"] for variable in dashboard["templating"]["list"]]
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) - {"__rate_interval"}
    assert used == set(names)
    assert "id" not in dashboard  # Grafana gives it one


def overlap(first: dict[str, int], second: dict[str, int]) -> bool:
    across = first["x"] < second["x"] + second["w"] and second["x"] < first["x"] + first["w"]
    down = first["y"] < second["y"] + second["h"] and second["y"] < first["y"] + first["h"]
    return across and down

"""The metrics of the page in the text form of Prometheus."""

from __future__ import annotations

import re

import pytest

from sparkfleet.page.metrics import format_metrics, list_cluster_metrics, list_host_metrics
from tests.pages import AT, HOSTS, build_content, build_health, build_hostile, build_status

Labels = dict[str, str]
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SAMPLE = re.compile(rf"({NAME})\{{(.*)\}} (\S+)")
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def parse(text: str) -> dict[str, list[tuple[Labels, float]]]:
    """Return the samples of each name; fails where a line is not of the form of Prometheus.

    https://prometheus.io/docs/instrumenting/exposition_formats/: HELP and TYPE once for each name,
    before its samples, which are together.
    """
    found: dict[str, list[tuple[Labels, float]]] = {}
    helped = typed = ""
    assert text.endswith("\n")
    for line in text.removesuffix("\n").split("\n"):
        if match := re.fullmatch(rf"# HELP ({NAME}) \S.*", line):
            helped = match[1]
            assert helped not in found
        elif match := re.fullmatch(rf"# TYPE ({NAME}) (gauge|counter)", line):
            typed = match[1]
            assert typed == helped
            assert typed.endswith("_total") == (match[2] == "counter")
            found[typed] = []
        else:
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            assert match[1] == typed
            labels = parse_labels(match[2])
            assert labels not in [other for other, _ in found[typed]]
            found[typed].append((labels, float(match[3])))
    return found


def parse_labels(text: str) -> Labels:
    labels: Labels = {}
    at = 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match is not None, text[at:]
        assert match[1] not in labels
        labels[match[1]] = re.sub(r"\\.", lambda escape: ESCAPES[escape[0]], match[2])
        at = match.end()
    return labels


@pytest.fixture
def samples() -> dict[str, list[tuple[Labels, float]]]:
    content = build_content()
    families = (*list_cluster_metrics(content), *list_host_metrics(content, HOSTS))
    return parse(format_metrics(content, families))


def pick(samples: dict[str, list[tuple[Labels, float]]], name: str, **labels: str) -> list[float]:
    wanted = {"cluster": "sparks", **labels}.items()
    return [value for found, value in samples[f"sparkfleet_{name}"] if wanted <= found.items()]


def test_metrics_have_the_numbers_of_the_status(
    samples: dict[str, list[tuple[Labels, float]]],
) -> None:
    assert pick(samples, "look_timestamp_seconds") == [AT]
    assert pick(samples, "health_state", state="serving") == [1]
    assert sorted(pick(samples, "health_state")) == [0] * 6 + [1]
    assert pick(samples, "rank_alive", rank="1", host="spark-02") == [1]
    assert pick(samples, "rank_gpu_memory_bytes", rank="0") == [91 * 2**30]
    assert pick(samples, "host_memory_available_bytes", host="spark-01") == [14_331_301_888]
    assert pick(samples, "gpu_power_watts", host="spark-01") == [61.4]
    assert pick(samples, "gpu_clock_hertz", host="spark-02") == [2.405e9]
    assert pick(samples, "links_received_bytes_total", host="spark-02") == [1e12]
    assert pick(samples, "rail_carrier", netdev="enp1s0f0np0") == [1, 1]
    assert pick(samples, "endpoint_healthy") == [1]
    assert pick(samples, "role_alive", role="serve") == [1]


def test_what_is_not_known_has_no_sample() -> None:
    hosts = {"spark-01": {"state": "unknown", "error": "no route"}}
    health = build_health(ranks=())
    content = build_content(status=build_status(hosts=hosts, health=health), hosts=("spark-01",))
    families = (*list_cluster_metrics(content), *list_host_metrics(content, ("spark-01",)))
    found = parse(format_metrics(content, families))
    assert pick(found, "host_reached", host="spark-01") == [0]
    assert "sparkfleet_gpu_power_watts" not in found
    assert "sparkfleet_rank_alive" not in found


def test_metrics_of_a_host_are_of_that_host_alone() -> None:
    content = build_content()
    found = parse(format_metrics(content, list_host_metrics(content, ("spark-02",))))
    assert {labels["host"] for family in found.values() for labels, _ in family} == {"spark-02"}


def test_hostile_names_stay_inside_their_labels() -> None:
    content = build_hostile()
    families = (*list_cluster_metrics(content), *list_host_metrics(content, content.hosts))
    found = parse(format_metrics(content, families))
    hosts = {labels["host"] for labels, _ in found["sparkfleet_host_reached"]}
    assert all("<script>alert('run')</script>" in name for name in hosts)
    assert len(hosts) == 2

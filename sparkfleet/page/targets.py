"""The targets of a cluster for Prometheus, as a file for `file_sd_configs`; pure.

https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config: a list of
groups with `targets` and `labels`; the label `__metrics_path__` sets the path of a target.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from sparkfleet.page.content import Served


def list_targets(
    cluster: str,
    hosts: Sequence[tuple[str, str]],
    *,
    page: str,
    vllm: str,
    served: Served | None,
) -> Iterator[dict[str, Any]]:
    """Yield the groups: vLLM at `vllm`, the cluster, and each host, by the page at `page`.

    `hosts` are names, in rank order, with the paths of their metrics.
    """
    head = hosts[0][0]
    about = {"model": served.model, "recipe": served.recipe} if served else {}
    yield _build_group(vllm, "/metrics", job="vllm", cluster=cluster, host=head, rank="0", **about)
    yield _build_group(page, "/metrics/cluster", job="sparkfleet", cluster=cluster)
    ranks = served.hosts if served else tuple(name for name, _ in hosts)
    for name, path in hosts:
        rank = {"rank": str(ranks.index(name))} if name in ranks else {}
        role = "spare" if not rank else "head" if name == ranks[0] else "worker"
        yield _build_group(
            page, path, job="sparkfleet-host", cluster=cluster, host=name, role=role, **rank
        )


def _build_group(target: str, path: str, **labels: str) -> dict[str, Any]:
    return {"targets": [target], "labels": {"__metrics_path__": path, **labels}}


def format_targets(groups: Sequence[dict[str, Any]]) -> str:
    """Return the text of the file."""
    return json.dumps(groups, indent=2) + "\n"

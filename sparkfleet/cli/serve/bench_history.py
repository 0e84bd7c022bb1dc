"""Keeps the results of `serve.bench` on the head, for `cluster.report`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sparkfleet import facts
from sparkfleet.cli.serve.session import ServeSession
from sparkfleet.launch.endpoint import bench_history
from sparkfleet.launch.endpoint.throughput import Throughput
from sparkfleet.launch.host.processes import locate_deployment, write_files
from sparkfleet.recipes.settings import Settings


def save_bench_history(
    session: ServeSession, paces: Sequence[Throughput], notes: Sequence[str]
) -> None:
    """Append the results to the history on the head."""
    connection = session.connection
    location = locate_deployment(Settings(host=connection.host), session.context.cluster.name)
    about = session.served.about
    news = bench_history.build_bench_entries(
        paces, at=time.time(), recipe=about.recipe, nodes=len(about.hosts), notes=notes
    )
    path = f"{location['cluster_dir']}/{location['cluster']}/{bench_history.FILE}"
    text = facts.gather_facts(connection, files=[path], fabric=False).read(path).text
    earlier = bench_history.parse_bench_history(text)
    history = bench_history.format_bench_history((*earlier, *news))
    write_files(connection, location, {bench_history.FILE: history})

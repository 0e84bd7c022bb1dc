"""`cluster.report`: all that is known about a cluster now, as one HTML file."""

from __future__ import annotations

from sparkfleet.cli.cluster.options import ReportOptions
from sparkfleet.cli.context import open_cluster
from sparkfleet.cli.page_content.collector import collect_content
from sparkfleet.cli.views.health import open_wait_display
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import UsageError
from sparkfleet.page.html import render_page
from sparkfleet.quantities import format_size
from sparkfleet.report.output_files import check_output_file, write_output_file
from sparkfleet.resources import format_path


def write_report(options: ReportOptions) -> int:
    """Write the file and return 0, whatever the health of the cluster; raises UsageError."""
    path = options.html
    if path is None:
        raise UsageError("--html is missing", hint="name a file: --html report.html")
    check_output_file(path)
    with open_cluster(options) as session:
        with open_wait_display(quiet=False) as show:
            content = collect_content(session, show)
        text = render_page(content)
    size = write_output_file(path, text)
    health = content.status["health"]
    print_lines(
        f"{health['state']}: {health['reason']}",
        f"wrote {format_path(path)}, {format_size(size)}",
    )
    return 0

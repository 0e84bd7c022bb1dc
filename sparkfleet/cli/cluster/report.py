"""`cluster.report`: all that is known about a cluster now, as one HTML file."""

from __future__ import annotations

from pathlib import Path

from sparkfleet.cli.cluster.options import ReportOptions
from sparkfleet.cli.context import open_cluster
from sparkfleet.cli.pages.collecting import collect_content
from sparkfleet.cli.views.health import open_wait_display
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import UsageError
from sparkfleet.page.html import render_page
from sparkfleet.quantities import format_size
from sparkfleet.resources import format_path


def write_report(options: ReportOptions) -> int:
    """Write the file and return 0, whatever the health of the cluster; raises UsageError."""
    path = options.html
    if path is None:
        raise UsageError("--html is missing", hint="name a file: --html report.html")
    check_writable(path)
    with open_cluster(options) as session:
        with open_wait_display(quiet=False) as show:
            content = collect_content(session, show)
        text = render_page(content)
    size = write_text_file(path, text)
    health = content.status["health"]
    print_lines(
        f"{health['state']}: {health['reason']}",
        f"wrote {format_path(path)}, {format_size(size)}",
    )
    return 0


def check_writable(path: Path) -> None:
    """Raise UsageError where `path` is not a file of an existing folder, before hosts are asked."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint="name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is not a folder", hint=f"make it: mkdir -p {path.parent}")


def write_text_file(path: Path, text: str) -> int:
    """Write `text` whole or not at all, and return its bytes; raises UsageError."""
    data = text.encode(errors="replace")
    partial = path.with_name(f".{path.name}.new")
    try:
        partial.unlink(missing_ok=True)
        with partial.open("xb") as file:  # never what another user put there
            file.write(data)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(f"{path}: {error.strerror}", hint="name another file") from error
    return len(data)

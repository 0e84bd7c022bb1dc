"""`doctor --bundle`: one archive with all that a report of a problem needs, redacted."""

from __future__ import annotations

import getpass
import io
import json
import os
import platform
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from sparkfleet import __version__
from sparkfleet.cli.context import ClusterSession, open_pool, resolve_context
from sparkfleet.cli.doctor.host_files import Files, collect_from_hosts
from sparkfleet.cli.doctor.view import find_diagnosed_run
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.doctor.logs import RUN_LOG, load_log_bundle
from sparkfleet.errors import UsageError
from sparkfleet.quantities import format_size
from sparkfleet.report.identity_redaction import redact_identity
from sparkfleet.report.output_files import CREATE, check_output_file

CONTENTS = "CONTENTS.txt"
MAX_TEXT = 4 << 20  # characters of a file in the archive: the end of a longer one
MODE = 0o600
HEADER = """Written by sparkfleet {version} for a report of a problem.
Masked: tokens, keys, passwords, serial numbers, UUIDs, hardware and public addresses, users.
Not masked: names of hosts, private addresses, names of models and files.
Read it before you send it.
"""


def write_bundle(path: Path, target: str | None, options: Options) -> int:
    """Write the archive and print its contents; return 0. Raises UsageError.

    With an inventory the hosts are asked too; one that does not answer is only noted.
    """
    check_output_file(path)
    if os.path.lexists(path):
        raise _build_exists_error(path)
    files = {"versions.json": _describe_versions(), **_collect_logs(target)}
    users = {getpass.getuser()}
    if options.inventory:
        context = resolve_context(options, needs_recipe=False)
        users |= {str(host.get("ansible_user", "")) for host in context.cluster.hosts}
        with open_pool(options) as pool:
            files |= collect_from_hosts(ClusterSession(context=context, pool=pool))
    redacted = {name: redact_identity(text, users)[-MAX_TEXT:] for name, text in files.items()}
    contents = list_contents(redacted)
    _write_archive(path, {CONTENTS: contents, **redacted})
    print_lines(*contents.splitlines(), f"wrote {path}")
    return 0


def list_contents(files: Mapping[str, str]) -> str:
    """Return the list of what is in the archive."""
    lines = [f"{name}  {format_size(len(text.encode()))}" for name, text in sorted(files.items())]
    return HEADER.format(version=__version__) + "".join(f"{line}\n" for line in lines)


def _describe_versions() -> str:
    versions = {
        "sparkfleet": __version__,
        "python": sys.version,
        "platform": platform.platform(),
    }
    return json.dumps(versions, indent=1) + "\n"


def _collect_logs(target: str | None) -> Files:
    """Return the logs of a run, or none where no run has failed and none was named."""
    try:
        folder = find_diagnosed_run(target)
    except UsageError:
        return {}
    bundle = load_log_bundle(folder)
    logs = {f"run/{Path(log.name).name}": log.text for log in bundle.logs}
    return logs | ({f"run/{RUN_LOG}": bundle.account} if bundle.account else {})


def _write_archive(path: Path, files: Mapping[str, str]) -> None:
    """Write a new archive; a file that exists is not replaced."""
    try:
        with (
            os.fdopen(os.open(path, CREATE, MODE), "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for name, text in files.items():
                data = text.encode(errors="replace")
                entry = tarfile.TarInfo(f"sparkfleet-bundle/{name}")
                entry.size = len(data)
                entry.mode = MODE
                archive.addfile(entry, io.BytesIO(data))
    except FileExistsError as error:
        raise _build_exists_error(path) from error


def _build_exists_error(path: Path) -> UsageError:
    return UsageError(f"{path} already exists", hint="name another file")

"""`init`: asks, connects, reads facts and writes the files of a project."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from sparkfleet.cli import prompt
from sparkfleet.cli.connection_checks import check_ssh_options
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.init.access import give_access, read_hosts
from sparkfleet.cli.init.answers import ProjectAnswers, collect_answers
from sparkfleet.cli.init.cable_search import find_cabled_hosts
from sparkfleet.cli.init.files import INVENTORY, KEY_FILE, format_files
from sparkfleet.cli.init.findings import Findings, examine_hosts
from sparkfleet.cli.init.options import InitOptions
from sparkfleet.cli.views.screen import print_host_errors, print_lines
from sparkfleet.command_name import name_command
from sparkfleet.errors import AuthenticationError, HostKeyError, SparkfleetError, UsageError
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.report.output_files import write_new_file
from sparkfleet.resources import format_path, resolve_path


def create_project(options: InitOptions) -> int:
    """Make the project and return the exit code: 0, or 4 where a host did not answer."""
    folder = options.dir or Path()
    _check_inventory(folder / INVENTORY, options)
    asks = not options.yes and prompt.is_interactive()
    answers = collect_answers(options, asks=asks)
    check_ssh_options(answers.hosts)
    give_access(answers.hosts, options, asks=asks)
    if options.discover:
        cabled = find_cabled_hosts(answers.hosts, options, asks=asks)
        answers = replace(answers, hosts=(*answers.hosts, *cabled))
    read = read_hosts(answers.hosts, options)
    findings = examine_hosts(read.values, answers.hosts)
    print_lines(*findings.lines)
    print_host_errors(read.errors)
    key_file = resolve_path(folder / KEY_FILE) if options.api_key else None
    files = format_files(answers, findings, key_file)
    if asks:
        print_lines("", f"{folder / INVENTORY}:", *files[INVENTORY].splitlines(), "")
        if not prompt.confirm(f"write it and {len(files) - 1} more files into {folder}?"):
            raise UsageError("nothing was written", hint="give other answers, or --yes")
    print_lines(*_write_files(folder, files, options))
    if key_file:
        print_lines(_write_key(key_file))
    load_inventory([str(folder / INVENTORY)])  # what was written is valid
    print_lines(*_format_next(folder, answers, findings, read.errors))
    return compute_exit_code(read.errors.values())


def _check_inventory(path: Path, options: InitOptions) -> None:
    if path.exists() and not options.replace:
        raise UsageError(
            f"{format_path(path)} exists, and is kept",
            hint="to replace it: --replace, which keeps the old one as local.yml.old",
        )


def _write_files(folder: Path, files: Mapping[str, str], options: InitOptions) -> Iterator[str]:
    """Write the missing files, and yield a line for each; `replace` renames an old inventory."""
    for name, text in files.items():
        path = folder / name
        there = os.path.lexists(path)
        if there and name == INVENTORY and options.replace:
            path.replace(path.with_name(f"{path.name}.old"))
        elif there:
            yield f"kept {path}"
            continue
        write_new_file(path, text)
        yield f"wrote {path}"


def _write_key(path: Path) -> str:
    """Make an API key in a file that only its owner may read; return a line for the user."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return f"kept {path}"
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"{secrets.token_urlsafe(24)}\n")
    return f"wrote {path}: the API key of the endpoint, for clients: $(cat {KEY_FILE})"


def _format_next(
    folder: Path, answers: ProjectAnswers, findings: Findings, errors: Mapping[str, SparkfleetError]
) -> Iterator[str]:
    yield "next:"
    if resolve_path(folder) != Path.cwd():
        yield f"  cd {folder}"
    if errors:
        yield from _format_missing_access(errors.values())
        yield f"  {name_command('init')} --replace with the same answers fills in the cabling"
        return
    nodes = len(answers.hosts)
    yield f"  {name_command('hosts.check')}"
    if nodes > 1:
        ready = findings.addressed and findings.common
        yield f"  {name_command('links.verify' if ready else 'links.apply')}"
    if nodes == 1 or findings.common:
        size = f"--tp {nodes}" if nodes > 1 else "--solo"
        yield f"  {name_command('cluster.up')} {size}"


def _format_missing_access(errors: Iterable[SparkfleetError]) -> Iterator[str]:
    """Yield what gives access to the hosts that did not let us in; nothing that was done already.

    SSH compares the host key first, so a refused login has a host key that is known.
    """
    kinds = [type(error) for error in errors]
    if HostKeyError in kinds:
        yield f"  {name_command('hosts.trust')}      # host keys"
    if HostKeyError in kinds or AuthenticationError in kinds:
        yield f"  {name_command('hosts.authorize')}  # your SSH key"

"""`hosts.authorize`: copies a public key to every machine with OpenSSH's own ssh-copy-id.

The password is asked by ssh on the terminal; sparkfleet starts the program and sees none of it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sparkfleet.cli import prompt
from sparkfleet.cli.context import resolve_context
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.hosts.machines import list_machines
from sparkfleet.cli.hosts.options import AuthorizeOptions
from sparkfleet.cli.views.screen import print_host_errors, print_lines
from sparkfleet.command_name import name_command
from sparkfleet.commands import quote
from sparkfleet.errors import (
    AuthenticationError,
    HostError,
    HostKeyError,
    SparkfleetError,
    UsageError,
)
from sparkfleet.remote.errors import Target
from sparkfleet.remote.ssh import try_login
from sparkfleet.resources import expand_home

USUAL_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
CANNOT_RUN = 127  # of a shell that does not find a program


def authorize_key(options: AuthorizeOptions) -> int:
    """Copy the key to each machine that does not accept it yet; return the exit code."""
    context = resolve_context(options, needs_recipe=False)
    errors = authorize_machines(list_machines(context.cluster.hosts), options.key)
    print_host_errors(errors)
    return compute_exit_code(errors.values())


def authorize_machines(machines: Sequence[Target], key: Path | None) -> dict[str, SparkfleetError]:
    """Copy `key`, or the usual one, to each machine that takes no key; return errors by machine."""
    errors: dict[str, SparkfleetError] = {}
    for target in machines:
        try:
            _authorize_machine(target, key)
        except HostError as error:
            errors[str(target)] = error
    return errors


def _authorize_machine(target: Target, given: Path | None) -> None:
    """Copy the key to one machine; raises UnreachableError, and UsageError without a terminal."""
    try:
        try_login(target)
    except HostKeyError as error:
        if "not in known_hosts" not in error.message:
            raise
        hint = f"compare and add it first: {name_command('hosts.trust')}"
        raise HostKeyError(error.message, host=target.host, hint=hint) from error
    except AuthenticationError:
        pass
    else:
        print_lines(f"{target.host}: {target} already accepts one of your keys")
        return
    prompt.require_terminal("hosts.authorize", f"by hand: {target.command('ssh-copy-id')}")
    key = choose_public_key(target, given)
    print_lines(f"{target.host}: {target.login} will accept {key} once you have typed its password")
    command = build_copy_command(target, key)
    if code := _run_on_terminal(command):
        raise _build_copy_error(target, key, command, code)
    try_login(target)
    print_lines(f"{target.host}: {target.login} accepts the key")


def _build_copy_error(
    target: Target, key: Path, command: Sequence[str], code: int
) -> AuthenticationError:
    """Return the error of a copy that failed; what OpenSSH said is on the terminal already."""
    by_hand = f"on its console, add the line in {key} to ~/.ssh/authorized_keys of {target.login}"
    if code == CANNOT_RUN:
        message = "ssh-copy-id not found on this machine"
        hint = f"install OpenSSH's client, or {by_hand}"
    else:
        message = f"{target.login} does not accept {key} yet: ssh-copy-id exited with status {code}"
        hint = (
            f"to try the password again: {name_command('hosts.authorize')}, or "
            f"{quote(command)}; if passwords are not accepted: {by_hand}"
        )
    return AuthenticationError(message, host=target.host, hint=hint)


def choose_public_key(target: Target, given: Path | None) -> Path:
    """Return the public key to copy: `given`, the inventory's, a usual one, or a new one.

    Raises UsageError for a file that is missing.
    """
    if given is not None:
        return _find_public_part(given)
    for name in target.options.identity_files:
        return _find_public_part(expand_home(name))
    folder = Path.home() / ".ssh"
    for usual in USUAL_KEYS:
        if (folder / f"{usual}.pub").is_file():
            return folder / f"{usual}.pub"
    return _make_key(folder / USUAL_KEYS[0])


def _find_public_part(path: Path) -> Path:
    public = path if path.suffix == ".pub" else path.with_name(f"{path.name}.pub")
    if not public.is_file():
        raise UsageError(
            f"{public} not found",
            hint=f"make it from the private key: ssh-keygen -y -f {path} > {public}",
        )
    return public


def _make_key(path: Path) -> Path:
    """Make a key with ssh-keygen, which asks for its passphrase itself; return the public one."""
    print_lines(f"there is no key in {path.parent}: ssh-keygen makes one")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if code := _run_on_terminal(["ssh-keygen", "-t", "ed25519", "-f", str(path)]):
        raise UsageError(
            f"ssh-keygen exited with status {code}",
            hint=f"by hand: ssh-keygen -t ed25519 -f {path}",
        )
    return path.with_name(f"{path.name}.pub")


def build_copy_command(target: Target, key: Path) -> list[str]:
    """Return the words of ssh-copy-id; host keys are checked, and unknown ones refused."""
    options = target.options
    way = ",".join(f"{hop.user}@{hop.address}:{hop.port}" for hop in options.jumps or ())
    settings = [
        "StrictHostKeyChecking=yes",
        *([f"ProxyJump={way}"] if way else ()),
        *([f"HostKeyAlias={options.key_alias}"] if options.key_alias else ()),
        *([f"UserKnownHostsFile={target.known_hosts}"] if target.known_hosts else ()),
    ]
    return [
        "ssh-copy-id",
        *("-i", str(key)),
        *(["-F", options.config_file] if options.config_file else ()),
        *("-p", str(options.port)),
        *(word for setting in settings for word in ("-o", setting)),
        target.login,
    ]


def _run_on_terminal(command: list[str]) -> int:
    """Run a program that talks to the terminal itself, and return its exit status."""
    try:
        return subprocess.run(command, check=False, env={**os.environ, "LC_ALL": "C"}).returncode
    except FileNotFoundError:
        return CANNOT_RUN

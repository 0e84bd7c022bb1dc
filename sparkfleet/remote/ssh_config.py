"""What ssh's own configuration adds to the inventory's SSH options.

``ssh -G`` prints what ssh would do for a host and connects nowhere (ssh(1)); it takes 4 ms. So
Include, Match, patterns, canonical names and which value wins are as ssh itself reads them, for
Ansible and for us alike.
"""

from __future__ import annotations

import functools
import os
import pwd
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sparkfleet.errors import UsageError
from sparkfleet.remote.sockets import CONNECT_TIMEOUT
from sparkfleet.remote.ssh_options import SshOptions, jump_hosts

MOST_JUMPS = 8  # one behind the other
OWN_CONFIG = "~/.ssh/config"
OWN_KNOWN_HOSTS = "~/.ssh/known_hosts"
# Paramiko tries these by itself, after the agent's keys.
USUAL_KEYS = re.compile(r"~/\.ssh/id_(rsa|dsa|xmss|(ecdsa|ed25519)(_sk)?)")
CHECKING = {"true": "yes", "ask": "yes", "false": "no", "off": "no"}  # as `ssh -G` prints it
NO_PROXY = "use ProxyJump; or for this host, ansible_ssh_common_args: -o ProxyCommand=none"
NOT_OURS = {
    "proxycommand": NO_PROXY,
    "revokedhostkeys": "leave it out for this host",
    "bindaddress": "leave it out for this host",
    "bindinterface": "leave it out for this host",
}

Said = Mapping[str, Sequence[str]]  # the values of each option in lower case, in their order


def complete(options: SshOptions, *, most_jumps: int = MOST_JUMPS) -> SshOptions:
    """Return `options` with all that they leave open as ssh's configuration has it.

    The jump hosts on the way are complete too. Raises UsageError for a configuration that ssh
    refuses, that asks for a way or a check that we do not have, or that there is no ssh to read.
    """
    said = _ask(options)
    for name, hint in NOT_OURS.items():
        if name in said and (name != "proxycommand" or options.jumps is None):
            raise _refusal(options, f"{name} {_one(said, name)}", hint)
    way: list[SshOptions] = []
    for hop in _jumps(options, said):
        if most_jumps == 0:
            raise _refusal(options, f"more than {MOST_JUMPS} jump hosts", "do they loop?")
        there = complete(hop, most_jumps=most_jumps - 1)
        way += [*(there.jumps or ()), replace(there, jumps=())]
    return replace(combine(options, said), jumps=tuple(way))


def combine(options: SshOptions, said: Said) -> SshOptions:
    """Return `options`, and what ``ssh -G`` said where they say nothing.

    The jump hosts it said are left to a look of their own.
    """
    tokens = _tokens(options, said)
    checking = _one(said, "stricthostkeychecking", "yes")
    return replace(
        options,
        address=tokens["h"],
        user=tokens["r"],
        port=int(tokens["p"]),
        identity_files=(*options.identity_files, *_keys(said, tokens)),
        known_hosts=(
            *(options.known_hosts or _files(said, "userknownhostsfile") or (OWN_KNOWN_HOSTS,)),
            *_files(said, "globalknownhostsfile"),
        ),
        key_checking=options.key_checking or CHECKING.get(checking, checking),
        key_alias=options.key_alias or _one(said, "hostkeyalias") or None,
    )


@functools.cache  # asked before a host is touched, and again to connect
def _ask(options: SshOptions) -> Said:
    given = (("-F", options.config_file), ("-l", options.user), ("-p", options.port))
    flags = [word for flag, value in given if value for word in (flag, str(value))]
    try:
        done = subprocess.run(
            ["ssh", "-T", "-G", *flags, "--", options.address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CONNECT_TIMEOUT,
            check=False,
        )
    except FileNotFoundError as error:
        return _without_ssh(options, error)
    except subprocess.TimeoutExpired as error:
        raise _refusal(options, "a Match exec that does not end", None) from error
    if done.returncode:
        reason = "; ".join(done.stderr.strip().splitlines())
        raise UsageError(f"ssh refuses its configuration for {options.address}: {reason}")
    said: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        said.setdefault(name, []).append(value)
    return said


def _without_ssh(options: SshOptions, error: FileNotFoundError) -> Said:
    file = Path(options.config_file or OWN_CONFIG).expanduser()
    if not file.exists():
        return {}
    raise UsageError(
        f"{file} tells how to connect, and there is no ssh to read it",
        hint="install OpenSSH's client: apt install openssh-client",
    ) from error


def _refusal(options: SshOptions, seen: str, hint: str | None) -> UsageError:
    return UsageError(
        f"ssh's configuration has for {options.address} {seen}, which is not supported", hint=hint
    )


def _jumps(options: SshOptions, said: Said) -> Sequence[SshOptions]:
    if options.jumps is not None:
        return options.jumps
    text = _expanded(_one(said, "proxyjump", "none"), _tokens(options, said))
    hops = jump_hosts(text)
    if hops is None:
        raise _refusal(options, f"ProxyJump {text}", "known: user@host:port, also a list")
    return [replace(hop, config_file=options.config_file) for hop in hops]


def _tokens(options: SshOptions, said: Said) -> Mapping[str, str]:
    """Return the tokens of ssh_config(5) that ``ssh -G`` leaves as they are."""
    login = pwd.getpwuid(os.getuid()).pw_name
    user = _one(said, "user", login)
    return {
        "h": _one(said, "hostname", options.address),
        "n": options.address,
        "p": str(options.port or _one(said, "port", "22")),
        "r": options.user or (options.fallback_user if user == login else None) or user,
        "u": login,
        "d": str(Path.home()),
        "%": "%",
    }


def _keys(said: Said, tokens: Mapping[str, str]) -> list[str]:
    named = [name for name in said.get("identityfile", ()) if not USUAL_KEYS.fullmatch(name)]
    files = [Path(_expanded(name, tokens)).expanduser() for name in named]
    return [str(file) for file in files if file.is_file()]


def _expanded(text: str, tokens: Mapping[str, str]) -> str:
    return re.sub("%(.)", lambda found: tokens.get(found[1], found[0]), os.path.expandvars(text))


def _files(said: Said, name: str) -> list[str]:
    return re.split(r" (?=[/~])", _one(said, name)) if name in said else []


def _one(said: Said, name: str, otherwise: str = "") -> str:
    first, *_ = said.get(name, (otherwise,))
    return first

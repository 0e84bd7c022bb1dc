"""Complete the inventory's SSH options from ssh's own configuration.

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
from sparkfleet.remote.ssh_keywords import REFUSED
from sparkfleet.remote.ssh_options import SshOptions, parse_jump_hosts, suggest_jump_host
from sparkfleet.resources import expand_home, is_existing_file
from sparkfleet.unreadable_files import explain_unreadable_file

MAX_JUMPS = 8  # one behind the other
USER_CONFIG = "~/.ssh/config"
USER_KNOWN_HOSTS = "~/.ssh/known_hosts"
# Paramiko tries these by itself, after the agent's keys.
USUAL_KEYS = re.compile(r"~/\.ssh/id_(rsa|dsa|xmss|(ecdsa|ed25519)(_sk)?)")
CHECKING = {"true": "yes", "ask": "yes", "false": "no", "off": "no"}  # as `ssh -G` prints it
MARK = r"\357\273\277"  # of the byte order, as ssh writes it
UNKNOWN = re.compile(r"Bad configuration option: (\S+)")
CERTIFICATE = "-cert.pub"  # after the name of a key, as ssh and Paramiko look for it
ALGORITHMS = {  # by the kind that Paramiko calls them
    "ciphers": "ciphers",
    "hostkeyalgorithms": "keys",
    "kexalgorithms": "kex",
    "macs": "macs",
    "pubkeyacceptedalgorithms": "pubkeys",
}

ConfigValues = Mapping[
    str, Sequence[str]
]  # the values of each option in lower case, in their order


def complete_ssh_options(options: SshOptions, *, most_jumps: int = MAX_JUMPS) -> SshOptions:
    """Return `options` with all that they leave open as ssh's configuration has it.

    The jump hosts on the way are complete too. Raises UsageError for a configuration that ssh
    refuses, that asks for a way or a check that we do not have, or that there is no ssh to read.
    """
    config = _query_ssh_config(options)
    _refuse_unsupported(options, config)
    way: list[SshOptions] = []
    for hop in _resolve_jumps(options, config):
        if most_jumps == 0:
            raise _build_unsupported_error(
                options, f"more than {MAX_JUMPS} jump hosts", "do they loop?"
            )
        there = complete_ssh_options(hop, most_jumps=most_jumps - 1)
        way += [*(there.jumps or ()), replace(there, jumps=())]
    return replace(merge_ssh_config(options, config), jumps=tuple(way))


def _refuse_unsupported(options: SshOptions, config: ConfigValues) -> None:
    """Raise UsageError for a setting of who is trusted, who signs or which way that we lack."""
    for keyword in REFUSED:
        name = keyword.name.lower()
        for value in config.get(name, ()):
            overridden = name == "proxycommand" and options.jumps is not None
            if not overridden and value not in keyword.fine and not _is_usual(name, value, config):
                hint = suggest_jump_host(value) or keyword.note
                raise _build_unsupported_error(options, f"{keyword.name} {value}", hint)


def _is_usual(name: str, value: str, config: ConfigValues) -> bool:
    """Return whether a file is used anyway: a certificate that lies next to its key."""
    keys = config.get("identityfile", ())
    return name == "certificatefile" and value.removesuffix(CERTIFICATE) in keys


def merge_ssh_config(options: SshOptions, config: ConfigValues) -> SshOptions:
    """Return `options`, completed by the output of ``ssh -G``.

    Jump hosts in that output are resolved separately.
    """
    tokens = _resolve_tokens(options, config)
    checking = _first_value(config, "stricthostkeychecking", "yes")
    return replace(
        options,
        address=tokens["h"],
        user=tokens["r"],
        port=int(tokens["p"]),
        identity_files=(*options.identity_files, *_select_identity_files(config, tokens)),
        known_hosts=(
            *(
                options.known_hosts
                or _split_files(config, "userknownhostsfile")
                or (USER_KNOWN_HOSTS,)
            ),
            *_split_files(config, "globalknownhostsfile"),
        ),
        key_checking=options.key_checking or CHECKING.get(checking, checking),
        key_alias=options.key_alias or _first_value(config, "hostkeyalias") or None,
        identities_only=_first_value(config, "identitiesonly") == "yes",
        agent=_first_value(config, "identityagent") != "none",
        agent_socket=_find_agent_socket(config, tokens),
        family=_first_value(config, "addressfamily", "any"),
        rsa_bits=int(_first_value(config, "requiredrsasize", "0")),
        hash_names=_first_value(config, "hashknownhosts") == "yes",
        algorithms=tuple(
            (kind, tuple(_first_value(config, name).split(",")))
            for name, kind in ALGORITHMS.items()
            if name in config
        ),
    )


@functools.cache  # asked before a host is touched, and again to connect
def _query_ssh_config(options: SshOptions) -> ConfigValues:
    file = expand_home(options.config_file or USER_CONFIG)
    if why := explain_unreadable_file(file):
        raise UsageError(
            f"{file} cannot be read: {why}",
            hint="correct it, or name another file: ansible_ssh_common_args: -F FILE",
        )
    given = (("-F", options.config_file), ("-l", options.user), ("-p", options.port))
    flags = [word for flag, value in given if value for word in (flag, str(value))]
    flags += [text for word in options.words for text in ("-o", word)]
    try:
        done = subprocess.run(
            ["ssh", "-T", "-G", *flags, "--", options.address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=CONNECT_TIMEOUT,
            check=False,
        )
    except FileNotFoundError as error:
        return _check_ssh_needed(options, error)
    except subprocess.TimeoutExpired as error:
        slow = f"ssh -G did not finish within {CONNECT_TIMEOUT} s"
        raise _build_unsupported_error(
            options, slow, "does a Match exec in the configuration hang?"
        ) from error
    if done.returncode:
        raise _build_refusal_error(options, done.stderr)
    config: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        config.setdefault(name, []).append(value)
    return config


def _build_refusal_error(options: SshOptions, said: str) -> UsageError:
    """Return what `ssh` said, and how keywords that only another system has are passed over."""
    reason = "; ".join(dict.fromkeys(said.strip().splitlines()))
    unknown = ",".join(dict.fromkeys(UNKNOWN.findall(said)))
    hint = f"if another system has it, begin the file with: IgnoreUnknown {unknown}"
    if unknown.startswith(MARK):
        hint = "save the file without a byte-order mark"
    message = f"ssh refuses its configuration for {options.address}: {reason}"
    return UsageError(message, hint=hint if unknown else None)


def _check_ssh_needed(options: SshOptions, error: FileNotFoundError) -> ConfigValues:
    file = expand_home(options.config_file or USER_CONFIG)
    if not file.exists():
        return {}
    raise UsageError(
        f"{file} exists, but the OpenSSH client is not installed",
        hint="install it: apt install openssh-client",
    ) from error


def _build_unsupported_error(options: SshOptions, setting: str, hint: str | None) -> UsageError:
    return UsageError(
        f"unsupported SSH option for {options.address}: {setting}",
        hint=hint,
    )


def _resolve_jumps(options: SshOptions, config: ConfigValues) -> Sequence[SshOptions]:
    if options.jumps is not None:
        return options.jumps
    text = _expand_tokens(
        _first_value(config, "proxyjump", "none"), _resolve_tokens(options, config)
    )
    hops = parse_jump_hosts(text)
    if hops is None:
        raise _build_unsupported_error(
            options, f"ProxyJump {text}", "known: user@host:port, also a list"
        )
    return [replace(hop, config_file=options.config_file) for hop in hops]


def _resolve_tokens(options: SshOptions, config: ConfigValues) -> Mapping[str, str]:
    """Return the tokens of ssh_config(5) that ``ssh -G`` leaves as they are."""
    login = pwd.getpwuid(os.getuid()).pw_name
    user = _first_value(config, "user", login)
    return {
        "h": _first_value(config, "hostname", options.address),
        "n": options.address,
        "p": str(options.port or _first_value(config, "port", "22")),
        "r": options.user or (options.fallback_user if user == login else None) or user,
        "u": login,
        "d": str(Path.home()),
        "%": "%",
    }


def _select_identity_files(config: ConfigValues, tokens: Mapping[str, str]) -> list[str]:
    named = [name for name in config.get("identityfile", ()) if not USUAL_KEYS.fullmatch(name)]
    files = [expand_home(_expand_tokens(name, tokens)) for name in named]
    return [str(file) for file in files if is_existing_file(file)]


def _find_agent_socket(config: ConfigValues, tokens: Mapping[str, str]) -> str:
    """Return the path that IdentityAgent names; "" for the agent of SSH_AUTH_SOCK, and for none."""
    named = _first_value(config, "identityagent", "none")
    if named in ("none", "SSH_AUTH_SOCK"):
        return ""
    return str(expand_home(_expand_tokens(named, tokens)))


def _expand_tokens(text: str, tokens: Mapping[str, str]) -> str:
    return re.sub("%(.)", lambda match: tokens.get(match[1], match[0]), os.path.expandvars(text))


def _split_files(config: ConfigValues, name: str) -> list[str]:
    return re.split(r" (?=[/~])", _first_value(config, name)) if name in config else []


def _first_value(config: ConfigValues, name: str, otherwise: str = "") -> str:
    first, *_ = config.get(name, (otherwise,))
    return first

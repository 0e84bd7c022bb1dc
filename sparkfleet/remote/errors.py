"""Errors for refused SSH connections, each with what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparkfleet.command_name import name_command
from sparkfleet.commands import quote
from sparkfleet.errors import AuthenticationError, HostKeyError, InputError, UnreachableError
from sparkfleet.model import Host
from sparkfleet.remote.ping import STARVED, answers_ping
from sparkfleet.remote.ssh_config import USER_KNOWN_HOSTS, complete_ssh_options
from sparkfleet.remote.ssh_options import SshOptions, parse_ssh_options
from sparkfleet.resources import expand_home

CHECKED = "StrictHostKeyChecking=no is ignored (host keys are always verified): "
STANDARD_PORT = 22
COPY = "ssh-copy-id"  # takes one key


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A machine that was called for `host`: its own or a jump host; `options` are complete."""

    host: str
    options: SshOptions
    jump: bool = False
    password: bool = False  # whether the inventory has one for SSH, which takes keys here alone

    def __str__(self) -> str:
        kind = "jump host " if self.jump else ""
        return f"{kind}{self.login}:{self.options.port}"

    @property
    def login(self) -> str:
        """The user and the address."""
        return f"{self.options.user}@{self.options.address}"

    @property
    def name(self) -> str:
        """The name of the machine in known_hosts."""
        standard = self.options.port == STANDARD_PORT
        address = self.options.address
        return self.options.key_alias or (
            address if standard else f"[{address}]:{self.options.port}"
        )

    @property
    def known_hosts(self) -> str:
        """The file of known hosts where it is not the usual one, else an empty text."""
        return find_own_known_hosts(self.options)

    def command(self, *argv: str) -> str:
        """Return the command line of an OpenSSH program, `argv`, that reaches this machine."""
        flags = _list_own_flags(self.options, one_key=argv[0] == COPY)
        return quote([*argv, *_list_way_flags(self), *flags, self.login])


def _list_way_flags(target: Target) -> list[str]:
    """Return the way: ProxyJump, which takes no further options, or else a ProxyCommand."""
    way = target.options.jumps or ()
    if not way:
        return []
    if not any(_list_own_flags(replace(hop, port=STANDARD_PORT)) for hop in way):
        text = ",".join(f"{hop.user}@{hop.address}:{hop.port}" for hop in way)
        return ["-o", f"ProxyJump={text}"]
    last = replace(target, options=replace(way[-1], jumps=way[:-1]))
    return ["-o", f"ProxyCommand={last.command('ssh', '-W', '[%h]:%p')}"]


def _list_own_flags(options: SshOptions, *, one_key: bool = False) -> list[str]:
    """Return what ssh would not do by itself: its configuration, the key, known_hosts, the name."""
    keys = options.identity_files[:1] if one_key else options.identity_files
    accepts = "accept-new" if options.key_checking == "accept-new" else ""
    known_hosts = find_own_known_hosts(options)
    words = (
        ("UserKnownHostsFile", known_hosts),
        ("HostKeyAlias", options.key_alias),
        ("StrictHostKeyChecking", accepts),
    )
    return [
        *(["-F", options.config_file] if options.config_file else ()),
        *(["-p", str(options.port)] if options.port != STANDARD_PORT else ()),
        *(text for file in keys for text in ("-i", file)),
        *(text for name, value in words if value for text in ("-o", f"{name}={value}")),
        *(text for word in options.words for text in ("-o", word)),
    ]


def find_own_known_hosts(options: SshOptions) -> str:
    """Return the file of known hosts where it is not the usual one, else an empty text."""
    first = next(iter(options.known_hosts), USER_KNOWN_HOSTS)
    usual = expand_home(first) == expand_home(USER_KNOWN_HOSTS)
    return "" if usual else first


def build_ssh_command(host: Host, *words: str) -> str:
    """Return a command that logs in to `host` as sparkfleet does, and runs `words` there."""
    try:
        options = complete_ssh_options(parse_ssh_options(host))
    except InputError:  # it was reported before anything was reached
        return quote(["ssh", host.address, *words])
    target = Target(host=host.name, options=options)
    return " ".join([target.command("ssh"), *([quote(words)] if words else [])])


def build_small_key_error(target: Target) -> UnreachableError:
    """Return the error of an RSA key that is smaller than ssh's configuration wants."""
    return HostKeyError(
        f"{target} answered with an RSA key of fewer than {target.options.rsa_bits} bits "
        "(RequiredRSASize)",
        host=target.host,
        hint="create an ed25519 host key on that host: sudo ssh-keygen -A",
    )


def build_security_key_error(target: Target, file: str) -> UnreachableError:
    """Return the error for a key that lives on a security key and is not in the agent."""
    return AuthenticationError(
        f"the key {file} for {target} lives on a security key, which only an agent can use",
        host=target.host,
        hint=f"put it into the agent: {_name_adder(target)} {quote([file])}; or name another key "
        f"(ansible_ssh_private_key_file); to try it: {target.command('ssh')}",
    )


def build_connection_error(target: Target, reason: str) -> UnreachableError:
    """Return the error for a machine where nothing, or no SSH server, answers."""
    return UnreachableError(
        f"cannot connect to {target} ({reason})",
        host=target.host,
        hint=f"check the address and that sshd runs: {target.command('ssh', '-v')}",
    )


def build_protocol_error(target: Target, reason: str) -> UnreachableError:
    """Return the error for an SSH server that answers but fails later."""
    return UnreachableError(
        f"SSH to {target} failed ({reason})",
        host=target.host,
        hint=f"see what OpenSSH says: {target.command('ssh', '-v')}",
    )


def build_unknown_key_error(
    target: Target, remarks: Sequence[str] = (), *, unchecked: bool
) -> UnreachableError:
    """Return the error for an unknown key; `unchecked` if ssh's configuration would accept it.

    `remarks` say which lines of known_hosts name the machine and do not count.
    """
    accept = f"{CHECKED}set accept-new, or " if unchecked else ""
    passed_over = "".join(f"; {remark}" for remark in remarks)
    return HostKeyError(
        f"the host key of {target} is not in known_hosts{_format_known_hosts(target)}{passed_over}",
        host=target.host,
        hint=f"{accept}compare its fingerprint and add it: {name_command('hosts.trust')}, or "
        f"connect once by hand: {target.command('ssh')}",
    )


def _format_known_hosts(target: Target) -> str:
    return f" ({target.known_hosts})" if target.known_hosts else ""


def build_changed_key_error(target: Target, *, unchecked: bool) -> UnreachableError:
    """Return the error for a changed key; `unchecked` as in `build_unknown_key_error`."""
    file = ["-f", target.known_hosts] if target.known_hosts else []
    forget = quote(["ssh-keygen", "-R", target.name, *file])
    return HostKeyError(
        f"{target} answered with another host key than the one in "
        f"known_hosts{_format_known_hosts(target)}",
        host=target.host,
        hint=f"{CHECKED if unchecked else ''}a reinstalled machine? compare fingerprints, "
        f"then: {forget}",
    )


def build_revoked_key_error(target: Target) -> UnreachableError:
    """Return the error of a key that known_hosts revokes."""
    return HostKeyError(
        f"{target} answered with a host key that known_hosts{_format_known_hosts(target)} revokes",
        host=target.host,
        hint="do not connect; give the machine a new host key, then remove the @revoked line",
    )


def build_key_file_error(target: Target, file: str, reason: str) -> UnreachableError:
    """Return the error for a configured key file that is not a key."""
    return AuthenticationError(
        f"the key {file} for {target} cannot be used: {reason}",
        host=target.host,
        hint=(
            "use another key: ansible_ssh_private_key_file, or IdentityFile in ssh's configuration"
        ),
    )


def build_passphrase_error(target: Target) -> UnreachableError:
    """Return the error for a key with a passphrase."""
    return AuthenticationError(
        f"the key for {target} needs its passphrase",
        host=target.host,
        hint=f"load it into the agent: {_name_adder(target)}",
    )


def build_login_error(target: Target) -> UnreachableError:
    """Return the error for a host that accepts none of the keys."""
    return AuthenticationError(
        f"{target} accepted none of the keys that were offered",
        host=target.host,
        hint=("SSH password authentication is not supported; " if target.password else "")
        + f"install a key: {name_command('hosts.authorize')}, or {target.command('ssh-copy-id')}; "
        "or set ansible_ssh_private_key_file",
    )


def build_no_key_error(target: Target) -> UnreachableError:
    """Return the error where there is no key to offer, neither a file nor in an agent."""
    agent = target.options.agent_socket
    return AuthenticationError(
        f"no SSH key to log in to {target} with: neither in ~/.ssh nor in "
        + (f"the agent of {agent} (IdentityAgent)" if agent else "an agent"),
        host=target.host,
        hint=f"make one and copy it to the host: {name_command('hosts.authorize')}\n"
        f"or by hand: ssh-keygen -t ed25519, then {target.command('ssh-copy-id')}",
    )


def _name_adder(target: Target) -> str:
    """Return the command that puts a key into the agent that is asked."""
    agent = target.options.agent_socket
    return f"SSH_AUTH_SOCK={quote([agent])} ssh-add" if agent else "ssh-add"


def find_starved(target: Target) -> UnreachableError | None:
    """Return the error for a machine that answers a ping but not SSH; None for another one."""
    if not answers_ping(target.options.address):
        return None
    return UnreachableError(
        f"SSH to {target} does not answer, although the machine answers a ping",
        host=target.host,
        hint=STARVED,
    )

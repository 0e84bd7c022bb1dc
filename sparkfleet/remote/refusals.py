"""What to tell, and what to type next, when an SSH connection is refused.

A target is ``user@address:port``.
"""

from __future__ import annotations

from sparkfleet.errors import AuthenticationError, HostKeyError, UnreachableError

CHECKED = "StrictHostKeyChecking no does not count here: "


def no_connection(host: str, target: str, reason: str) -> UnreachableError:
    """Return what to tell where nothing, or no SSH, answers."""
    login, port = target.rsplit(":", 1)
    return UnreachableError(
        f"cannot connect to {target} ({reason})",
        host=host,
        hint=f"check the address and that sshd runs: ssh -v -p {port} {login}",
    )


def failed(host: str, target: str, reason: str) -> UnreachableError:
    """Return what to tell where SSH answers and cannot go on."""
    return UnreachableError(
        f"SSH to {target} failed ({reason})",
        host=host,
        hint=f"see what OpenSSH says: ssh -v {target.rsplit(':', 1)[0]}",
    )


def unknown_key(host: str, target: str, *, unchecked: bool) -> UnreachableError:
    """Return what to tell of a first contact; `unchecked` if ssh's configuration would not ask."""
    accept = f"{CHECKED}set accept-new, or " if unchecked else ""
    login = target.rsplit(":", 1)[0]
    return HostKeyError(
        f"the host key of {target} is not in known_hosts",
        host=host,
        hint=f"{accept}connect once by hand and compare the fingerprint: ssh {login}",
    )


def wrong_key(host: str, target: str, *, unchecked: bool) -> UnreachableError:
    """Return what to tell of another key than before; `unchecked` as in `unknown_key`."""
    return HostKeyError(
        f"{target} answered with another host key than the one in known_hosts",
        host=host,
        hint=(CHECKED if unchecked else "")
        + "a reinstalled machine? compare fingerprints, then: ssh-keygen -R <address>",
    )


def locked_key(host: str, target: str) -> UnreachableError:
    """Return what to tell where the key has a passphrase."""
    return AuthenticationError(
        f"the key for {target} needs its passphrase",
        host=host,
        hint="load it into the agent: ssh-add",
    )


def no_login(host: str, target: str) -> UnreachableError:
    """Return what to tell where the host accepts no key."""
    login, port = target.rsplit(":", 1)
    return AuthenticationError(
        f"{target} accepted none of the keys that were offered",
        host=host,
        hint=f"install a key: ssh-copy-id -p {port} {login}; or set ansible_ssh_private_key_file",
    )


def starved(host: str, target: str, hint: str) -> UnreachableError:
    """Return what to tell where the machine answers a ping and SSH is silent."""
    return UnreachableError(
        f"SSH to {target} is silent, though the machine answers a ping", host=host, hint=hint
    )

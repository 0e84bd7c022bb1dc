"""The change of one host: its files, and the commands that apply them; pure.

Until it is confirmed, a change lies in ``/run`` only, where netplan looks before ``/etc``
(https://netplan.readthedocs.io/en/stable/netplan-generate/) and NetworkManager too: a host that
loses its power boots as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.links.addressing.host_network import KEYFILES, NETPLAN, HostNetwork
from sparkfleet.links.addressing.keyfiles import (
    compute_profile_uuid,
    find_keyfile,
    format_keyfile,
    holds_profile,
    name_keyfile,
)
from sparkfleet.links.addressing.netplan_files import (
    HEADER,
    RailSettings,
    edit_netplan_files,
    parse_netplan_files,
)
from sparkfleet.links.addressing.planned_rail import PlannedRail

ARP_FILE = "/etc/sysctl.d/90-arp.conf"
ARP_SYSCTLS = {"net.ipv4.conf.all.arp_ignore": "1", "net.ipv4.conf.all.arp_announce": "2"}
NETPLAN_APPLY = ("netplan", "apply")
NMCLI_RELOAD = ("nmcli", "connection", "reload")
# The way back does not wait for DHCP that no one answers, which takes nmcli 90 s.
NMCLI_BACK = ("nmcli", "--wait", "2", "connection", "up", "uuid")
STAGED = {
    NETPLAN: "/run/netplan/",
    KEYFILES: "/run/NetworkManager/system-connections/",
    "/etc/sysctl.d/": "/run/sysctl.d/",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """A file as it is and as it is to be; None where it does not exist."""

    path: str
    before: str | None
    after: str | None

    @property
    def staged(self) -> str:
        """The path at which it is tried before it is confirmed."""
        folder, _, name = self.path.rpartition("/")
        return f"{STAGED[f'{folder}/']}{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostChange:
    """The change of one host; empty where it is as planned."""

    host: str
    edits: tuple[FileEdit, ...] = ()
    rails: tuple[PlannedRail, ...] = ()  # whose address or MTU changes now
    sysctls: Mapping[str, str]
    apply: tuple[tuple[str, ...], ...] = ()
    undo: tuple[tuple[str, ...], ...] = ()
    keep: tuple[tuple[str, ...], ...] = ()  # once the files are in /etc

    @property
    def empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.edits or self.rails or self.sysctls)

    def build_request(self) -> dict[str, Any]:
        """Return what `onhost/fabric/netconfig.py` needs to try it."""
        return {
            "files": [
                {
                    "path": edit.path,
                    "staged": edit.staged,
                    "before": edit.before,
                    "after": edit.after,
                }
                for edit in self.edits
            ],
            "rails": {
                rail.name: {"addresses": [str(rail.address)], "mtu": rail.mtu}
                for rail in self.rails
            },
            "sysctls": dict(self.sysctls),
            "apply": [list(argv) for argv in self.apply],
            "undo": [list(argv) for argv in self.undo],
            "keep": [list(argv) for argv in self.keep],
        }


def plan_host_change(
    network: HostNetwork, rails: Sequence[PlannedRail], *, arp: bool
) -> HostChange:
    """Return the change of a host; `arp`: each rail is to answer ARP for its own address only."""
    profiles = [rail for rail in rails if uses_keyfile(network, rail.name)]
    netplan = [rail for rail in rails if rail not in profiles]
    changed = tuple(rail for rail in rails if not rail.live)
    keyfiles = tuple(_edit_keyfiles(network, [rail.settings for rail in profiles]))
    yaml = tuple(_edit_netplan(network, [rail.settings for rail in netplan]))
    sysctls = tuple(_edit_sysctls(network)) if arp else ()
    apply: list[tuple[str, ...]] = []
    undo: list[tuple[str, ...]] = []
    if yaml or any(rail in netplan for rail in changed):
        apply.append(NETPLAN_APPLY)
        undo.append(NETPLAN_APPLY)
    edited = {edit.path for edit in keyfiles}
    for rail in profiles:
        if (
            rail in changed
            or (find_keyfile(network.files, rail.name) or name_keyfile(rail.name)) in edited
        ):
            apply += [
                NMCLI_RELOAD,
                ("nmcli", "connection", "up", "uuid", _find_uuid(network, rail)),
            ]
            old = network.managed.get(rail.name)
            undo += [NMCLI_RELOAD, *([(*NMCLI_BACK, old)] if old else [])]
    values = {
        name: value
        for name, value in (ARP_SYSCTLS.items() if arp else ())
        if network.sysctls.get(name) != value
    }
    if values:  # what was learned before is wrong
        apply += [("ip", "neigh", "flush", "dev", rail.name) for rail in rails]
    return HostChange(
        host=network.host,
        edits=(*yaml, *keyfiles, *sysctls),
        rails=changed,
        sysctls=values,
        apply=tuple(dict.fromkeys(apply)),
        undo=tuple(dict.fromkeys(undo)),
        keep=(NMCLI_RELOAD,) if keyfiles else (),
    )


def uses_keyfile(network: HostNetwork, netdev: str) -> bool:
    """Return whether NetworkManager's keyfiles configure a netdev, and not netplan.

    Where netplan is installed it writes NetworkManager's profiles too, unless a keyfile of the
    user names the netdev.
    """
    if find_keyfile(network.files, netdev):
        return True
    return not network.netplan and netdev in network.managed


def _find_uuid(network: HostNetwork, rail: PlannedRail) -> str:
    """Return the UUID of the profile to activate: the user's where it is right as it is."""
    path = find_keyfile(network.files, rail.name)
    text = network.files[path] if path else ""
    if path and holds_profile(text, rail.settings):
        line = next((line for line in text.splitlines() if line.startswith("uuid=")), "")
        return line.partition("=")[2].strip()
    return compute_profile_uuid(rail.settings)


def _edit_netplan(network: HostNetwork, rails: Sequence[RailSettings]) -> Iterator[FileEdit]:
    files = tuple(parse_netplan_files(network.files))
    for path, text in edit_netplan_files(files, rails).items():
        yield FileEdit(path=path, before=network.files.get(path), after=text)


def _edit_keyfiles(network: HostNetwork, rails: Sequence[RailSettings]) -> Iterator[FileEdit]:
    for rail in rails:
        path = find_keyfile(network.files, rail.netdev) or name_keyfile(rail.netdev)
        before = network.files.get(path)
        if before is None or not holds_profile(before, rail):
            yield FileEdit(path=path, before=before, after=format_keyfile(rail))


def _edit_sysctls(network: HostNetwork) -> Iterator[FileEdit]:
    text = HEADER + "".join(f"{name} = {value}\n" for name, value in ARP_SYSCTLS.items())
    before = network.files.get(ARP_FILE)
    if before != text:
        yield FileEdit(path=ARP_FILE, before=before, after=text)

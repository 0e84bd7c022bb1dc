"""The systemd unit that runs `cluster.watch` on this machine, from its boot on; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkfleet.command_name import name_command
from sparkfleet.templating import render_template

TEMPLATE = "watch.service.j2"
SYSTEM_FOLDER = Path("/etc/systemd/system")
USER_FOLDER = Path(".config/systemd/user")  # below the home directory
LINGER = ("loginctl", "enable-linger")
ROOT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchMachine:
    """The machine that watches: its user, and whether sudo works there without a password.

    `lingers` also where no logind runs.
    """

    user: str
    uid: int
    home: Path
    sudo: bool
    lingers: bool

    @property
    def system(self) -> bool:
        """Whether the unit is one of the system: for root, and where there is sudo."""
        return self.sudo or self.uid == ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchUnit:
    """A unit file, and commands as words: to enable it, to keep it running, to disable it."""

    name: str
    path: Path
    text: str
    enable: tuple[tuple[str, ...], ...]
    keep: tuple[tuple[str, ...], ...]
    disable: tuple[tuple[str, ...], ...]
    sudo: bool


def build_watch_unit(
    cluster: str,
    machine: WatchMachine,
    *,
    argv: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
) -> WatchUnit:
    """Return the unit that runs `argv` in `folder`; raises TemplateError for odd characters."""
    name = name_watch_unit(cluster)
    text = render_template(
        TEMPLATE,
        {
            "cluster": cluster,
            "enable": name_command("cluster.enable"),
            "disable": name_command("cluster.disable"),
            "user": machine.user if machine.system else "",  # which also sets HOME
            "folder": str(folder),
            "environment": [f"{key}={value}" for key, value in sorted(environment.items())],
            "argv": argv,
            "user_manager": not machine.system,
        },
    )
    base = SYSTEM_FOLDER if machine.system else machine.home / USER_FOLDER
    return WatchUnit(
        name=name,
        path=base / name,
        text=text,
        enable=_list_enable_commands(name, machine),
        keep=(*_list_linger_commands(machine), (*_systemctl(machine), "enable", "--now", name)),
        disable=((*_systemctl(machine), "disable", "--now", name),),
        sudo=machine.system and machine.uid != ROOT,
    )


def name_watch_unit(cluster: str) -> str:
    """Return the name of the unit that watches `cluster`."""
    return f"sparkfleet-watch-{cluster}.service"


def _systemctl(machine: WatchMachine) -> tuple[str, ...]:
    return ("systemctl",) if machine.system else ("systemctl", "--user")


def _list_linger_commands(machine: WatchMachine) -> tuple[tuple[str, ...], ...]:
    """Return the command, if any, for a user who does not linger.

    Only with it a user's units run from the boot on. And logind removes semaphores and shared
    memory of a user at the last logout (``RemoveIPC``), also those of ranks that the watcher
    started, since a service is not a login.
    """
    lacks = machine.uid != ROOT and not machine.lingers
    return ((*LINGER, machine.user),) if lacks else ()


def _list_enable_commands(name: str, machine: WatchMachine) -> tuple[tuple[str, ...], ...]:
    systemctl = _systemctl(machine)
    return (
        *_list_linger_commands(machine),
        (*systemctl, "daemon-reload"),
        (*systemctl, "enable", name),
        (*systemctl, "restart", name),
    )

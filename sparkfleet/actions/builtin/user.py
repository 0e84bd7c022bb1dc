"""`user`: add a user to groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.builtin.become import HELP, resolve_become
from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import InvalidValueError
from sparkfleet.model import Change
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.sudo import Sudo, run_program_with_sudo
from sparkfleet.values import convert_choice, convert_list, convert_string

USER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,255}\$?")  # also of a directory service


@dataclass(frozen=True, slots=True, kw_only=True)
class UserArgs:
    """The arguments of `user`."""

    groups: tuple[str, ...] = arg("groups to add the user to")
    append: bool = arg("must be true: the user is never removed from groups", default=False)
    name: str = arg("the user; by default the login user", default="")
    become: bool | None = arg(HELP, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Groups to add a user to, through `sudo`."""

    name: str
    groups: tuple[str, ...]
    sudo: Sudo

    def request(self, do: str) -> Mapping[str, Any]:
        """Return the request of a step."""
        return {"do": do, "name": self.name, "groups": self.groups}


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingGroups:
    """A user of a host: its name, the groups that it lacks, and those that do not exist there."""

    name: str
    lacks: tuple[str, ...]
    unknown: tuple[str, ...]


def _parse_missing_groups(
    answer: Mapping[str, Any], groups: tuple[str, ...], name: str
) -> MissingGroups:
    """Return an answer about `groups`; it becomes part of a command that root runs."""
    return MissingGroups(
        name=name or _check_user_name(answer["name"]),
        lacks=tuple(convert_choice(group, groups) for group in convert_list(answer["lacks"])),
        unknown=tuple(convert_choice(group, groups) for group in convert_list(answer["unknown"])),
    )


def _check_user_name(value: Any) -> str:
    if USER_NAME.fullmatch(convert_string(value)):
        return str(value)
    raise InvalidValueError("the name of a user", value)


class User(HostAction[UserArgs]):
    """Add a user to groups, from its next login on. Undo removes it from them."""

    name = "user"
    args_type = UserArgs
    inspects = True
    undoes = True

    @classmethod
    def validate_args(cls, args: UserArgs) -> Iterator[str]:
        """Require groups as a list, and append."""
        if not args.append:
            yield "requires append: true; groups are only added, never removed"
        if any("," in group for group in args.groups):
            yield "groups must be a list, for example [docker, video]"

    def inspect(self, run: RunContext, connection: Connection) -> MissingGroups:
        """Find the groups that the user lacks; needs no sudo."""
        args = self.args[connection.host.name]
        parser = partial(_parse_missing_groups, groups=args.groups, name=args.name)
        request = {"do": "look", "name": args.name, "groups": args.groups}
        return connection.query("host/groups", request, parser)

    def decide(self, run: RunContext, host: str, inspected: MissingGroups) -> Plan:
        """Add what it lacks."""
        name = inspected.name
        lacks = inspected.lacks
        data = {"name": name, "groups": self.args[host].groups}
        if inspected.unknown:
            message = f"group not found: {', '.join(inspected.unknown)}"
            return Plan(failed=True, message=message, data=data)
        if not lacks:
            return Plan(data=data)
        sudo = resolve_become(run, host, requested=self.args[host].become)
        change = Change(summary=f"run usermod -aG {','.join(lacks)} {name}")
        work = Membership(name=name, groups=lacks, sudo=sudo)
        return Plan(changes=(change,), data=data, work=work)

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Add the user to the groups."""
        run_program_with_sudo(
            connection, "host/groups", plan.work.request("add"), sudo=plan.work.sudo
        )
        return plan

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Remove it from them."""
        run_program_with_sudo(
            connection, "host/groups", plan.work.request("remove"), sudo=plan.work.sudo
        )

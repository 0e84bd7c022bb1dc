"""`user`: groups that a user of the host belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.builtin.become import HELP, resolve_become
from sparkfleet.actions.run_context import RunContext
from sparkfleet.model import Change
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.sudo import Sudo, run_program_with_sudo


@dataclass(frozen=True, slots=True, kw_only=True)
class UserArgs:
    """The arguments of `user`."""

    groups: tuple[str, ...] = arg("groups that the user is put into")
    append: bool = arg("must be true: no group is taken away", default=False)
    name: str = arg("the user; who logs in, by default", default="")
    become: bool | None = arg(HELP, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Groups that a user is to be put into, by the user of `sudo`."""

    name: str
    groups: tuple[str, ...]
    sudo: Sudo

    def request(self, do: str) -> Mapping[str, Any]:
        """Return the request of a deed."""
        return {"do": do, "name": self.name, "groups": self.groups}


class User(HostAction[UserArgs]):
    """Put a user into groups; its next login has them. Undo takes it out of those again."""

    name = "user"
    args_type = UserArgs

    @classmethod
    def validate_args(cls, args: UserArgs) -> Iterator[str]:
        """Want groups in a list, and nothing taken away."""
        if not args.append:
            yield "needs append: true; groups are added, and none is taken away"
        if any("," in group for group in args.groups):
            yield "groups are a list, as in [docker, video]"

    def inspect(self, run: RunContext, connection: Connection) -> Mapping[str, Any]:
        """Look which groups the user lacks; that needs no sudo."""
        args = self.args[connection.host.name]
        return connection.run_program(
            "host/groups", {"do": "look", "name": args.name, "groups": args.groups}
        )

    def decide(self, run: RunContext, host: str, inspected: Mapping[str, Any]) -> Plan:
        """Add what it lacks."""
        lacks, data = (
            tuple(inspected["lacks"]),
            {"name": inspected["name"], "groups": self.args[host].groups},
        )
        if inspected["unknown"]:
            message = f"there is no group {', '.join(inspected['unknown'])}"
            return Plan(failed=True, message=message, data=data)
        if not lacks:
            return Plan(data=data)
        sudo = resolve_become(run, host, requested=self.args[host].become)
        change = Change(summary=f"run usermod -aG {','.join(lacks)} {inspected['name']}")
        work = Membership(name=inspected["name"], groups=lacks, sudo=sudo)
        return Plan(changes=(change,), data=data, work=work)

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Put the user into the groups."""
        run_program_with_sudo(
            connection, "host/groups", plan.work.request("add"), sudo=plan.work.sudo
        )
        return plan

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Take it out again."""
        run_program_with_sudo(
            connection, "host/groups", plan.work.request("remove"), sudo=plan.work.sudo
        )

"""`user`: groups that a user of the host belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.becoming import HELP, become
from sparkfleet.actions.scene import Scene
from sparkfleet.model import Change
from sparkfleet.remote.link import Link
from sparkfleet.remote.sudo import Sudo, ask


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
    def faults(cls, args: UserArgs) -> Iterator[str]:
        """Want groups in a list, and nothing taken away."""
        if not args.append:
            yield "needs append: true; groups are added, and none is taken away"
        if any("," in group for group in args.groups):
            yield "groups are a list, as in [docker, video]"

    def inspect(self, scene: Scene, link: Link) -> Mapping[str, Any]:
        """Look which groups the user lacks; that needs no sudo."""
        args = self.args[link.host.name]
        return link.ask("groups", {"do": "look", "name": args.name, "groups": args.groups})

    def decide(self, scene: Scene, host: str, seen: Mapping[str, Any]) -> Plan:
        """Add what it lacks."""
        lacks, data = tuple(seen["lacks"]), {"name": seen["name"], "groups": self.args[host].groups}
        if seen["unknown"]:
            message = f"there is no group {', '.join(seen['unknown'])}"
            return Plan(failed=True, message=message, data=data)
        if not lacks:
            return Plan(data=data)
        sudo = become(scene, host, asked=self.args[host].become)
        change = Change(summary=f"run usermod -aG {','.join(lacks)} {seen['name']}")
        work = Membership(name=seen["name"], groups=lacks, sudo=sudo)
        return Plan(changes=(change,), data=data, work=work)

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Put the user into the groups."""
        ask(link, "groups", plan.work.request("add"), sudo=plan.work.sudo)
        return plan

    def undo(self, scene: Scene, link: Link, plan: Plan) -> None:
        """Take it out again."""
        ask(link, "groups", plan.work.request("remove"), sudo=plan.work.sudo)

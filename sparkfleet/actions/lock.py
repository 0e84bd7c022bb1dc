"""`lock`: hold the cluster, so that no second run changes it at the same time."""

from __future__ import annotations

import getpass
import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.scene import Scene
from sparkfleet.commands import script
from sparkfleet.errors import CommandError, LockHeldError
from sparkfleet.remote.channel import Channel, ChannelTimeoutError
from sparkfleet.remote.link import Link

ANSWER_WITHIN = 15.0  # s, beyond the wait that was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks:
    """The live channels that hold the lock on each host; each frees it when it closes."""

    channels: Mapping[str, Channel]


class Lock(Action[NoArgs]):
    """Hold the lock of the cluster on every host until the run ends.

    It is an flock held by a live SSH channel: it frees itself when this process or its connection
    dies. A second run ends with 75 and the holder's name, or waits for `--lock-wait` seconds.
    """

    name = "lock"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Want the lock everywhere."""
        return {name: Plan(work=True) for name in seen}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Take the lock on one host, or raise LockHeldError."""
        request = {
            "weights_dir": scene.settings(link.host).text("weights_dir"),
            "cluster": scene.cluster.name,
            "holder": _holder(scene),
            "wait": scene.options.lock_wait,
        }
        command = script("lock", request)
        channel = link.open(command)
        channel.send(command.stdin)
        answer = _answer(channel, scene.options.lock_wait + ANSWER_WITHIN, link.host.name)
        if not answer["held"]:
            channel.close()
            raise _held(scene, link.host.name, answer["holder"])
        return Plan(data={"held": True}, work=channel)

    def settle(self, scene: Scene, plans: Mapping[str, Plan]) -> None:
        """Keep the channels open for the rest of the run."""
        if not scene.options.check:
            scene.remember(Locks(channels={name: plan.work for name, plan in plans.items()}))


def _holder(scene: Scene) -> dict[str, str]:
    return {
        "user": getpass.getuser(),
        "machine": platform.node(),
        "pid": str(os.getpid()),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "command": scene.options.command,
    }


def _answer(channel: Channel, timeout: float, host: str) -> dict[str, Any]:
    try:
        for line in channel.lines(time.monotonic() + timeout):
            answer: dict[str, Any] = json.loads(line)
            if "error" in answer:
                raise CommandError(answer["error"], host=host, hint=answer.get("hint"))
            return answer
    except (ChannelTimeoutError, ValueError) as error:
        raise CommandError("the lock program gave no answer", host=host) from error
    raise CommandError(f"the lock program ended: {channel.stderr.strip()}", host=host)


def _held(scene: Scene, host: str, holder: Mapping[str, str]) -> LockHeldError:
    who = (
        f"{holder.get('user', '?')} on {holder.get('machine', '?')} (pid {holder.get('pid', '?')})"
    )
    return LockHeldError(
        f"cluster {scene.cluster.name} is locked on {host} by {who} "
        f"since {holder.get('since', '?')}: {holder.get('command', '?')}",
        hint="wait for it with --lock-wait 600, or free it with cluster.unlock if it is gone",
    )

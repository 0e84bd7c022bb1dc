"""`lock`: hold the cluster, so that no second run changes it at the same time."""

from __future__ import annotations

import contextlib
import getpass
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.identity import identity, runs
from sparkfleet.actions.scene import Scene
from sparkfleet.commands import script
from sparkfleet.errors import CommandError, GateError, LockHeldError, SparkfleetError
from sparkfleet.model import Host
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.channel import Channel, ChannelTimeoutError
from sparkfleet.remote.link import Link
from sparkfleet.remote.pool import Answers, Pool

FREED_WITHIN = 2.0  # s
NOTICED_WITHIN = 2.0  # s after which a host knows of a run that died, but for one that was cut off
ANSWER_WITHIN = 15.0  # s, beyond the wait that was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks:
    """The live channels that hold the lock on each host; each frees it when it closes."""

    channels: Mapping[str, Channel]

    def free(self) -> None:
        """Free the lock everywhere, and wait until it is free."""
        with contextlib.suppress(OSError):  # whose connection is gone holds nothing
            for channel in self.channels.values():
                channel.end_input()
        for channel in self.channels.values():
            channel.finish(FREED_WITHIN)


class Lock(Action[NoArgs]):
    """Hold the lock of the cluster on every host until the run ends.

    It is an flock held by a live SSH channel: it frees itself when this process or its connection
    dies. A second run ends with 75 and the holder's name, or waits for `--lock-wait` seconds.
    """

    name = "lock"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Take it once in a run."""
        return {name: Plan(work=scene.found(Locks) is None or None) for name in seen}

    def carry_out(
        self, scene: Scene, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[Plan]:
        """Take it, and keep the channels open for the rest of the run."""
        settings = [scene.settings(host) for host in hosts]
        asked = request(scene.cluster.name, scene.options.command, scene.options.lock_wait)
        answers = take_each(scene.pool, settings, asked)
        scene.remember(Locks(channels=answers.values))
        kept = {name: plans[name] for name in answers.values}
        return Answers(values=kept, errors=answers.errors)


def request(cluster: str, command: str, wait: float) -> dict[str, Any]:
    """Return what the lock program is asked for, but for what differs from host to host."""
    return {"cluster": cluster, "holder": holder(command), "wait": wait}


def holder(command: str) -> dict[str, str]:
    """Return who this run is, for those who meet what it holds or leaves."""
    return {
        "user": getpass.getuser(),
        **identity(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "command": command,
    }


def take(pool: Pool, hosts: Sequence[Settings], asked: Mapping[str, Any]) -> Locks:
    """Take the lock on every host or on none; raises LockHeldError."""
    answers = take_each(pool, hosts, asked)
    for error in answers.errors.values():
        Locks(channels=answers.values).free()
        raise error
    return Locks(channels=answers.values)


def take_each(pool: Pool, hosts: Sequence[Settings], asked: Mapping[str, Any]) -> Answers[Channel]:
    """Take the lock on each host that answers; raises LockHeldError, having freed the others.

    One after the other in the order of their names, so that two runs never wait for each other, and
    that a host with the folder of one before it finds our own run there: a GateError.
    """
    channels: dict[str, Channel] = {}
    errors: dict[str, SparkfleetError] = {}
    for settings in sorted(hosts, key=lambda one: one.host.name):
        answers = _take(pool, settings, asked)
        channels |= answers.values
        errors |= answers.errors
        for error in answers.errors.values():
            if isinstance(error, LockHeldError):
                Locks(channels=channels).free()
                raise error
    return Answers(values=channels, errors=errors)


def free(link: Link, settings: Settings, cluster: str) -> dict[str, str] | None:
    """End the process that holds the lock on a host; return who it was for, None if nobody.

    For a holder that is gone and whose connection the host still believes in.
    """
    asked = {"cluster_dir": settings.cluster_dir, "cluster": cluster}
    return link.ask("unlock", asked)["holder"]  # type: ignore[no-any-return]  # JSON


def look(link: Link, settings: Settings, cluster: str) -> dict[str, str] | None:
    """Return who holds the lock on a host, None if nobody."""
    asked = {"cluster_dir": settings.cluster_dir, "cluster": cluster, "look": True}
    return link.ask("unlock", asked)["holder"]  # type: ignore[no-any-return]  # JSON


def told(holder: Mapping[str, str]) -> str:
    """Return who holds a lock, as a part of a sentence."""
    who, machine, pid = (holder.get(name, "?") for name in ("user", "machine", "pid"))
    since, command = holder.get("since", "?"), holder.get("command", "?")
    return f"{who} on {machine} (pid {pid}) since {since}: {command}"


def _take(pool: Pool, settings: Settings, asked: Mapping[str, Any]) -> Answers[Channel]:
    holder = {**asked["holder"], "host": settings.host.name}
    own = {**asked, "folders": _folders(settings), "holder": holder}

    def work(link: Link) -> Channel:
        channel, held_by = _ask(link, own)
        if held_by and runs(held_by) is False:
            channel, held_by = _ask(link, {**own, "wait": NOTICED_WITHIN})
        if channel is None:
            raise _refusal(asked["cluster"], settings.host, held_by or {})
        link.keep(channel)  # what an interrupted run takes back is done under the lock
        return channel

    return pool.map(work, [settings.host])


def _folders(settings: Settings) -> list[str]:
    """Return where the locks of a host are: with what is ours, and with the weights that we bring.

    What two hosts have in one folder is written by each over the other's.
    """
    own, weights = settings.cluster_dir, f"{settings.text('weights_dir')}/.sparkfleet"
    return list(dict.fromkeys([own, weights] if settings.brings_weights else [own]))


def _one_folder(host: str, answer: Mapping[str, Any]) -> GateError:
    folder, other = answer["folder"], answer["holder"]["host"]
    store = folder.endswith("/.sparkfleet")
    return GateError(
        f"{folder} is one folder on this host and on {other}, and each would write over what the "
        "other wrote",
        host=host,
        hint="say in the inventory that it is one store: weights_strategy: shared"
        if store
        else "give each host a cluster_dir of its own, on its disk",
    )


def _ask(link: Link, asked: Mapping[str, Any]) -> tuple[Channel | None, Mapping[str, str] | None]:
    """Return the channel that holds the lock, or who holds it already; raises GateError.

    That is for a folder in which this run holds it by another host: each would write over what the
    other wrote.
    """
    command = script("lock", asked)
    channel = link.open(command)
    channel.feed([command.stdin], end=False)
    answer = _answer(channel, asked["wait"] + ANSWER_WITHIN, link.host.name)
    if answer["held"]:
        return channel, None
    channel.close()
    if answer["shared"]:
        raise _one_folder(link.host.name, answer)
    return None, answer["holder"]


def _refusal(cluster: str, host: Host, held_by: Mapping[str, str]) -> LockHeldError:
    gone = runs(held_by) is False
    return LockHeldError(
        f"cluster {cluster} is locked on {host.name} by {told(held_by)}"
        + (", a run that is gone" if gone else ""),
        hint="the host still believes in its connection; free it with cluster.unlock"
        if gone
        else "wait for it with --lock-wait 10m, or free it with cluster.unlock if it is gone",
    )


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

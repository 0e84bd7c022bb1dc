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
from sparkfleet.actions.run.identity import identify_process, is_process_running
from sparkfleet.actions.run_context import RunContext
from sparkfleet.commands import build_script_command
from sparkfleet.errors import CommandError, GateError, LockHeldError, SparkfleetError
from sparkfleet.model import Host
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.channel import Channel, ChannelTimeoutError
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers, ConnectionPool

FREED_WITHIN = 2.0  # s
NOTICED_WITHIN = 2.0  # s after which a host knows of a run that died, but for one that was cut off
ANSWER_WITHIN = 15.0  # s, beyond the wait that was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks:
    """The live channels that hold the lock on each host; each frees it when it closes."""

    channels: Mapping[str, Channel]

    def release(self) -> None:
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

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Take it once in a run."""
        return {name: Plan(work=run.found(Locks) is None or None) for name in inspected}

    def apply_all(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[Plan]:
        """Take it, and keep the channels open for the rest of the run."""
        settings = [run.settings(host) for host in hosts]
        lock_args = build_lock_request(run.cluster.name, run.options.command, run.options.lock_wait)
        answers = acquire_each_lock(run.pool, settings, lock_args)
        run.remember(Locks(channels=answers.values))
        kept = {name: plans[name] for name in answers.values}
        return Answers(values=kept, errors=answers.errors)


def build_lock_request(cluster: str, command: str, wait: float) -> dict[str, Any]:
    """Return what the lock program is asked for, but for what differs from host to host."""
    return {"cluster": cluster, "holder": build_lock_holder(command), "wait": wait}


def build_lock_holder(command: str) -> dict[str, str]:
    """Return who this run is, for those who meet what it holds or leaves."""
    return {
        "user": getpass.getuser(),
        **identify_process(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "command": command,
    }


def acquire_locks(
    pool: ConnectionPool, hosts: Sequence[Settings], request: Mapping[str, Any]
) -> Locks:
    """Take the lock on every host or on none; raises LockHeldError."""
    answers = acquire_each_lock(pool, hosts, request)
    for error in answers.errors.values():
        Locks(channels=answers.values).release()
        raise error
    return Locks(channels=answers.values)


def acquire_each_lock(
    pool: ConnectionPool, hosts: Sequence[Settings], request: Mapping[str, Any]
) -> Answers[Channel]:
    """Take the lock on each host that answers; raises LockHeldError, having freed the others.

    One after the other in the order of their names, so that two runs never wait for each other, and
    that a host with the folder of one before it finds our own run there: a GateError.
    """
    channels: dict[str, Channel] = {}
    errors: dict[str, SparkfleetError] = {}
    for settings in sorted(hosts, key=lambda target: target.host.name):
        answers = _acquire_host_lock(pool, settings, request)
        channels |= answers.values
        errors |= answers.errors
        for error in answers.errors.values():
            if isinstance(error, LockHeldError):
                Locks(channels=channels).release()
                raise error
    return Answers(values=channels, errors=errors)


def release_stale_lock(
    connection: Connection, settings: Settings, cluster: str
) -> dict[str, str] | None:
    """End the process that holds the lock on a host; return who it was for, None if nobody.

    For a holder that is gone and whose connection the host still believes in.
    """
    request = {"cluster_dir": settings.cluster_dir, "cluster": cluster}
    return connection.run_program("deployment/unlock", request)["holder"]  # type: ignore[no-any-return]  # JSON


def fetch_lock_holder(
    connection: Connection, settings: Settings, cluster: str
) -> dict[str, str] | None:
    """Return who holds the lock on a host, None if nobody."""
    request = {"cluster_dir": settings.cluster_dir, "cluster": cluster, "look": True}
    return connection.run_program("deployment/unlock", request)["holder"]  # type: ignore[no-any-return]  # JSON


def format_lock_holder(holder: Mapping[str, str]) -> str:
    """Return who holds a lock, as a part of a sentence."""
    who, machine, pid = (holder.get(name, "?") for name in ("user", "machine", "pid"))
    since, command = holder.get("since", "?"), holder.get("command", "?")
    return f"{who} on {machine} (pid {pid}) since {since}: {command}"


def _acquire_host_lock(
    pool: ConnectionPool, settings: Settings, request: Mapping[str, Any]
) -> Answers[Channel]:
    holder = {**request["holder"], "host": settings.host.name}
    host_request = {**request, "folders": _list_lock_folders(settings), "holder": holder}

    def work(connection: Connection) -> Channel:
        channel, held_by = _open_lock_channel(connection, host_request)
        if held_by and is_process_running(held_by) is False:
            channel, held_by = _open_lock_channel(
                connection, {**host_request, "wait": NOTICED_WITHIN}
            )
        if channel is None:
            raise _lock_held_error(request["cluster"], settings.host, held_by or {})
        connection.keep(channel)  # what an interrupted run takes back is done under the lock
        return channel

    return pool.map(work, [settings.host])


def _list_lock_folders(settings: Settings) -> list[str]:
    """Return where the locks of a host are: with what is ours, and with the weights that we bring.

    What two hosts have in one folder is written by each over the other's.
    """
    cluster_dir, weights = settings.cluster_dir, f"{settings.text('weights_dir')}/.sparkfleet"
    return list(dict.fromkeys([cluster_dir, weights] if settings.brings_weights else [cluster_dir]))


def _shared_folder_error(host: str, answer: Mapping[str, Any]) -> GateError:
    folder, peer = answer["folder"], answer["holder"]["host"]
    store = folder.endswith("/.sparkfleet")
    return GateError(
        f"{folder} is one folder on this host and on {peer}, and each would write over what the "
        "other wrote",
        host=host,
        hint="say in the inventory that it is one store: weights_strategy: shared"
        if store
        else "give each host a cluster_dir of its own, on its disk",
    )


def _open_lock_channel(
    connection: Connection, request: Mapping[str, Any]
) -> tuple[Channel | None, Mapping[str, str] | None]:
    """Return the channel that holds the lock, or who holds it already; raises GateError.

    That is for a folder in which this run holds it by another host: each would write over what the
    other wrote.
    """
    command = build_script_command("deployment/lock", request)
    channel = connection.open(command)
    channel.feed([command.stdin], end=False)
    answer = _read_lock_answer(channel, request["wait"] + ANSWER_WITHIN, connection.host.name)
    if answer["held"]:
        return channel, None
    channel.close()
    if answer["shared"]:
        raise _shared_folder_error(connection.host.name, answer)
    return None, answer["holder"]


def _lock_held_error(cluster: str, host: Host, held_by: Mapping[str, str]) -> LockHeldError:
    gone = is_process_running(held_by) is False
    return LockHeldError(
        f"cluster {cluster} is locked on {host.name} by {format_lock_holder(held_by)}"
        + (", a run that is gone" if gone else ""),
        hint="the host still believes in its connection; free it with cluster.unlock"
        if gone
        else "wait for it with --lock-wait 10m, or free it with cluster.unlock if it is gone",
    )


def _read_lock_answer(channel: Channel, timeout: float, host: str) -> dict[str, Any]:
    try:
        for line in channel.lines(time.monotonic() + timeout):
            answer: dict[str, Any] = json.loads(line)
            if "error" in answer:
                raise CommandError(answer["error"], host=host, hint=answer.get("hint"))
            return answer
    except (ChannelTimeoutError, ValueError) as error:
        raise CommandError("the lock program gave no answer", host=host) from error
    raise CommandError(f"the lock program ended: {channel.stderr.strip()}", host=host)

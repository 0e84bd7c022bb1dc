"""`lock`: lock the cluster, so that no second run changes it at the same time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, Executed, NoArgs, Plan, Planned
from sparkfleet.actions.run.identity import is_process_running
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import Locks, RunState
from sparkfleet.command_name import name_command
from sparkfleet.commands import build_script_command
from sparkfleet.errors import CommandError, GateError, LockHeldError, SparkfleetError
from sparkfleet.model import EMPTY, Host
from sparkfleet.onhost.shared.labels import SILENCE
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.channel import Channel, ChannelTimeoutError
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers, ConnectionPool
from sparkfleet.values import parse_json

NOTICED_WITHIN = 2.0  # seconds in which a host notices that a run died, unless its network was cut
UNNOTICED = f"within {SILENCE:.0f} s"  # where it was cut
IDENTITY = ("machine", "pid", "since")  # fields of a holder that identify a run
ANSWER_WITHIN = 15.0  # seconds, in addition to the requested wait


class Lock(Action[NoArgs]):
    """Hold the lock of the cluster on every host until the run ends.

    The lock is an flock held by a live SSH channel, so it is released when this process or its
    connection dies; behind a cut network that takes a minute. A second run exits with 75 and names
    the holder, or waits up to `--lock-wait`. The lock of a run of this machine whose process no
    longer exists is taken over.
    """

    name = "lock"
    provides = ("locks",)
    # what was found out before: another run may have changed the hosts until it released the lock
    outdates = ("facts", "surveys", "health", "observed", "advice", "launch")
    inspects = True

    def inspect(self, run: RunContext, connection: Connection) -> Mapping[str, str] | None:
        """Return the live holder of the lock under --check, which takes no lock."""
        if not run.options.check:
            return None
        holder = fetch_lock_holder(connection, run.settings(connection.host), run.cluster.name)
        return holder if holder and is_process_running(holder) is not False else None

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Look at every host under --check; else none is contacted before the lock is taken."""
        if run.options.check:
            return super().inspect_all(run, hosts)
        return Answers(values={host.name: None for host in hosts}, errors={})

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Acquire it once in a run; raises LockHeldError under --check next to a live run."""
        for name, holder in inspected.items():
            if holder:
                raise _run_in_progress_error(run.cluster.name, name, holder)
        if run.options.check:
            free = Plan(message="not locked by another run")
            return Planned(
                plans=dict.fromkeys(inspected, free), provided=RunState(locks=Locks(channels=EMPTY))
            )
        held = run.state.locks is not None
        return Planned(plans=dict.fromkeys(inspected, Plan() if held else Plan(work=True)))

    def apply_all(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Executed[Plan]:
        """Acquire it, and keep the channels open for the rest of the run."""
        settings = [run.settings(host) for host in hosts]
        lock_args = build_lock_request(run.cluster.name, run.holder, run.options.lock_wait)
        answers = acquire_each_lock(run.pool, settings, lock_args)
        kept = {name: plans[name] for name in answers.values}
        return Executed(
            answers=Answers(values=kept, errors=answers.errors),
            provided=RunState(locks=Locks(channels=answers.values)),
        )


def build_lock_request(cluster: str, holder: Mapping[str, str], wait: float) -> dict[str, Any]:
    """Return the part of the lock program's request that is the same for all hosts."""
    return {"cluster": cluster, "holder": holder, "wait": wait}


def acquire_locks(
    pool: ConnectionPool, hosts: Sequence[Settings], request: Mapping[str, Any]
) -> Locks:
    """Acquire the lock on every host or on none; raises LockHeldError."""
    answers = acquire_each_lock(pool, hosts, request)
    for error in answers.errors.values():
        Locks(channels=answers.values).release()
        raise error
    return Locks(channels=answers.values)


def acquire_each_lock(
    pool: ConnectionPool, hosts: Sequence[Settings], request: Mapping[str, Any]
) -> Answers[Channel]:
    """Acquire the lock on each host that answers; on LockHeldError the others are released.

    Hosts are locked one by one in the order of their names. So two runs never wait for each other,
    and a host that shares its directory with an earlier one finds this run's own lock: a GateError.
    """
    channels: dict[str, Channel] = {}
    errors: dict[str, SparkfleetError] = {}
    for settings in sorted(hosts, key=lambda target: target.host.name):
        answers = _acquire_host_lock(pool, settings, request, channels)
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
    """Stop the process that holds the lock on a host; return the holder, None if it is free.

    For a run that no longer exists, but whose SSH session is still open on the host.
    """
    request = {"cluster_dir": settings.cluster_dir, "cluster": cluster}
    return connection.query("deployment/unlock", request, _parse_lock_holder)


def fetch_lock_holder(
    connection: Connection, settings: Settings, cluster: str
) -> dict[str, str] | None:
    """Return the holder of the lock on a host, None if it is free."""
    request = {"cluster_dir": settings.cluster_dir, "cluster": cluster, "look": True}
    return connection.query("deployment/unlock", request, _parse_lock_holder)


def format_lock_holder(holder: Mapping[str, str]) -> str:
    """Return the holder of a lock, as part of a sentence."""
    names = ("user", "machine", "pid", "since", "command")
    user, machine, pid, since, command = (holder.get(name, "?") for name in names)
    return f"{user} on {machine} (pid {pid}) since {since}: {command}"


def _acquire_host_lock(
    pool: ConnectionPool,
    settings: Settings,
    request: Mapping[str, Any],
    channels: dict[str, Channel],
) -> Answers[Channel]:
    holder = {**request["holder"], "host": settings.host.name}
    host_request = {**request, "folders": _list_lock_folders(settings), "holder": holder}

    def work(connection: Connection) -> Channel:
        channel, held_by, folder = _open_lock_channel(connection, host_request)
        if held_by and is_process_running(held_by) is False:
            channel, held_by = _take_over(connection, host_request, folder)
        if channel is None:
            raise _lock_held_error(request["cluster"], settings.host, held_by or {})
        connection.keep(channel)  # an interrupted run is rolled back under the lock
        connection.restore_with(restore)
        return channel

    def restore(connection: Connection) -> None:
        channels[settings.host.name] = _acquire_again(connection, settings, host_request)

    return pool.map(work, [settings.host])


def _take_over(
    connection: Connection, request: Mapping[str, Any], folder: str
) -> tuple[Channel | None, Mapping[str, str] | None]:
    """Take over the lock of a run of this machine whose process no longer exists.

    Returns the channel that holds it, or the new holder. The host may not have noticed the end of
    that run, because its connection was lost; its lock program there is stopped.
    """
    again = {**request, "wait": NOTICED_WITHIN}
    channel, held_by, _ = _open_lock_channel(connection, again)
    if held_by and is_process_running(held_by) is False:
        place = {"cluster_dir": folder, "cluster": request["cluster"]}
        connection.query("deployment/unlock", place, _parse_lock_holder)
        channel, held_by, _ = _open_lock_channel(connection, again)
    return channel, held_by


def _acquire_again(
    connection: Connection, settings: Settings, request: Mapping[str, Any]
) -> Channel:
    """Hold the lock over a new connection; raises LockHeldError if another run had it meanwhile.

    The former session of this run may still be open on the host; it is ended.
    """
    cluster = request["cluster"]
    held_by = fetch_lock_holder(connection, settings, cluster)
    if held_by and all(held_by.get(name) == request["holder"][name] for name in IDENTITY):
        release_stale_lock(connection, settings, cluster)
    again = {**request, "wait": NOTICED_WITHIN, "again": True}
    channel, other, _ = _open_lock_channel(connection, again)
    if channel is None:
        raise _lock_lost_error(cluster, settings.host, other or {})
    connection.keep(channel)
    return channel


def _list_lock_folders(settings: Settings) -> list[str]:
    """Return the directories to lock on a host: sparkfleet's own, and that of staged weights.

    Hosts that share one of these would overwrite each other's files.
    """
    cluster_dir = settings.cluster_dir
    weights = f"{settings.text('weights_dir')}/.sparkfleet"
    return list(dict.fromkeys([cluster_dir, weights] if settings.brings_weights else [cluster_dir]))


def _shared_folder_error(host: str, answer: Mapping[str, Any]) -> GateError:
    folder = answer["folder"]
    peer = answer["holder"]["host"]
    if folder.endswith("/.sparkfleet"):
        name = "weights_dir"
        folder = folder.removesuffix("/.sparkfleet")
        hint = "if it is shared on purpose, set in the inventory: weights_strategy: shared"
    else:
        name = "cluster_dir"
        hint = "set cluster_dir to a directory on each host's local disk"
    return GateError(
        f"{name} {folder} is the same directory on this host and on {peer} (shared filesystem); "
        "each host needs its own",
        host=host,
        hint=hint,
    )


def _open_lock_channel(
    connection: Connection, request: Mapping[str, Any]
) -> tuple[Channel | None, Mapping[str, str] | None, str]:
    """Return the channel that holds the lock, or its present holder and the folder it holds.

    Raises GateError for a directory in which this run holds the lock through another host.
    """
    command = build_script_command("deployment/lock", request)
    channel = connection.open(command)
    channel.feed([command.stdin], end=False)
    answer = _read_lock_answer(channel, request["wait"] + ANSWER_WITHIN, connection.host.name)
    if answer["held"]:
        return channel, None, ""
    channel.close()
    if answer["shared"]:
        raise _shared_folder_error(connection.host.name, answer)
    return None, answer["holder"], answer["folder"]


def _lock_held_error(cluster: str, host: Host, held_by: Mapping[str, str]) -> LockHeldError:
    message = f"cluster {cluster} is locked on {host.name} by {format_lock_holder(held_by)}"
    return LockHeldError(
        message,
        hint=f"wait with --lock-wait 10m; if that run no longer exists, the host releases the lock "
        f"{UNNOTICED}; to release it now: {name_command('cluster.unlock')}",
    )


def _lock_lost_error(cluster: str, host: Host, held_by: Mapping[str, str]) -> LockHeldError:
    message = (
        f"this run lost its connection to {host.name} and with it the lock of cluster {cluster}, "
        f"which another run then took: {format_lock_holder(held_by)}"
    )
    return LockHeldError(
        message,
        hint=f"a host releases the lock of a run that it does not hear from {UNNOTICED}, such as "
        "one that was stopped or whose machine was asleep; to see what the other run did: "
        f"{name_command('cluster.status')}",
    )


def _run_in_progress_error(cluster: str, host: str, holder: Mapping[str, str]) -> LockHeldError:
    return LockHeldError(
        f"a run is in progress on cluster {cluster}, locked on {host} by "
        f"{format_lock_holder(holder)}",
        hint="--check cannot compare with a state that is changing; run it again once that run has "
        f"ended ({name_command('cluster.status')} shows when)",
    )


def _parse_lock_holder(answer: Mapping[str, Any]) -> dict[str, str] | None:
    holder = answer["holder"]
    return None if holder is None else {str(name): str(holder[name]) for name in holder}


def _parse_lock_answer(line: bytes) -> dict[str, Any]:
    answer = parse_json(line)
    if "error" in answer:
        hint = answer.get("hint")
        return {"error": str(answer["error"]), "hint": None if hint is None else str(hint)}
    if answer["held"]:
        return {"held": True}
    holder = _parse_lock_holder(answer) or {}
    shared = bool(answer["shared"]) and "host" in holder
    return {"held": False, "folder": str(answer["folder"]), "holder": holder, "shared": shared}


def _read_lock_answer(channel: Channel, timeout: float, host: str) -> dict[str, Any]:
    try:
        for line in channel.lines(time.monotonic() + timeout):
            answer = parse_answer(_parse_lock_answer, line, host, "deployment/lock")
            if "error" in answer:
                raise CommandError(answer["error"], host=host, hint=answer.get("hint"))
            return answer
    except ChannelTimeoutError as error:
        raise CommandError("the lock program did not answer", host=host) from error
    raise CommandError(f"the lock program stopped: {channel.stderr.strip()}", host=host)

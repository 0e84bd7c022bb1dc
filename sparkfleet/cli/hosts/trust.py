"""`hosts.trust`: shows the host key of every machine, and adds it to known_hosts after a yes."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby

from sparkfleet.cli import prompt
from sparkfleet.cli.context import resolve_context
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.hosts.machines import list_machines
from sparkfleet.cli.hosts.options import TrustOptions
from sparkfleet.cli.views.documents import print_document, serialize_host_errors
from sparkfleet.cli.views.screen import print_host_errors, print_lines
from sparkfleet.errors import SparkfleetError, UnreachableError
from sparkfleet.remote import errors
from sparkfleet.remote.errors import Target
from sparkfleet.remote.host_keys import (
    OfferedKey,
    add_known_key,
    list_known_hosts_files,
    read_target_keys,
)
from sparkfleet.remote.known_hosts import KeyVerdict, KnownKeys
from sparkfleet.remote.ssh import fetch_host_key

FILES = {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}  # of sshd: /etc/ssh/ssh_host_TYPE_key.pub


class KeyState(enum.StrEnum):
    """The state of a machine's key when the task ends."""

    KNOWN = "known"
    ADDED = "added"
    NEW = "new"  # and not added


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKey:
    """The key that a machine shows, and what became of it."""

    target: Target
    offered: OfferedKey
    state: KeyState


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustRequest:
    """New keys to add: those with one of the fingerprints and, if it `asks`, the confirmed ones."""

    fingerprints: frozenset[str]
    forks: int
    asks: bool
    shows: bool


def show_host_keys(options: TrustOptions) -> int:
    """Show the keys, add those that are confirmed, and return the exit code: 2 if one was not."""
    context = resolve_context(options, needs_recipe=False)
    request = TrustRequest(
        fingerprints=options.fingerprint,
        forks=options.forks,
        asks=not (options.json or options.fingerprint),
        shows=not options.json,
    )
    keys, refused = settle_host_keys(list_machines(context.cluster.hosts), request)
    left = [key for key in keys if key.state is KeyState.NEW]
    unseen = [] if refused else find_unseen(keys, options.fingerprint)
    code = compute_exit_code(refused.values(), refused=bool(left or unseen))
    if options.json:
        print_document(
            machines=[_serialize_key(key) for key in keys],
            unseen_fingerprints=unseen,
            errors=serialize_host_errors(refused),
            exit_code=code,
        )
        return code
    print_host_errors(refused)
    print_lines(*format_unseen(unseen), *_format_left(left))
    return code


def settle_host_keys(
    machines: Sequence[Target], request: TrustRequest
) -> tuple[list[MachineKey], dict[str, SparkfleetError]]:
    """Show and add keys as `request` says; return them, and errors by machine.

    A gateway is trusted before the machines behind it.
    """
    keys: list[MachineKey] = []
    refused: dict[str, SparkfleetError] = {}
    for _, group in groupby(machines, key=_count_jumps):
        found, lost = _fetch_keys(list(group), request.forks)
        refused |= lost
        keys += [_settle_key(key, request) for key in found]
    return keys, refused


def _count_jumps(target: Target) -> tuple[bool, int]:
    return not target.jump, len(target.options.jumps or ())


def _fetch_keys(
    machines: Sequence[Target], forks: int
) -> tuple[list[MachineKey], dict[str, SparkfleetError]]:
    """Return the keys of machines, and the errors of those that show none that can be added."""
    with ThreadPoolExecutor(max_workers=forks) as threads:
        answers = list(threads.map(_fetch_key, machines))
    found = [answer for answer in answers if isinstance(answer, MachineKey)]
    lost = {
        str(target): answer
        for target, answer in zip(machines, answers, strict=True)
        if isinstance(answer, SparkfleetError)
    }
    return found, lost


def _fetch_key(target: Target) -> MachineKey | SparkfleetError:
    known = read_target_keys(target)
    try:
        offered = fetch_host_key(target)
    except UnreachableError as error:
        return error
    verdict = judge_key(known, offered)
    if verdict is KeyVerdict.REVOKED:
        return errors.build_revoked_key_error(target)
    if verdict is KeyVerdict.CHANGED:
        return errors.build_changed_key_error(target, unchecked=False)
    state = KeyState.KNOWN if verdict is KeyVerdict.KNOWN else KeyState.NEW
    return MachineKey(target=target, offered=offered, state=state)


def judge_key(known: KnownKeys, offered: OfferedKey) -> KeyVerdict:
    """Return the verdict on a key; one of another type than the known ones counts as changed."""
    verdict = known.judge(offered.kind, offered.key)
    if verdict is KeyVerdict.UNKNOWN and known.types:
        return KeyVerdict.CHANGED
    return verdict


def _settle_key(key: MachineKey, request: TrustRequest) -> MachineKey:
    """Show a key; add it to known_hosts if it is new and confirmed."""
    if request.shows:
        print_lines(*_format_key(key))
    if key.state is KeyState.KNOWN or not _is_confirmed(key, request):
        return key
    file = list_known_hosts_files(key.target.options)[0]
    add_known_key(file, key.target.name, key.offered)
    if request.shows:
        print_lines(f"  added to {file}")
    return replace(key, state=KeyState.ADDED)


def _is_confirmed(key: MachineKey, request: TrustRequest) -> bool:
    if key.offered.fingerprint in request.fingerprints:
        return True
    return request.asks and prompt.confirm(f"  is it the key of {key.target.login}?")


def _format_key(key: MachineKey) -> Iterator[str]:
    yield f"{key.target.host}: {key.target}"
    yield f"  {key.offered.kind} {key.offered.fingerprint} ({key.state})"
    if key.state is KeyState.NEW:
        yield f"  on its own console: {format_console_command(key.offered.kind)}"


def format_console_command(kind: str) -> str:
    """Return the command that prints the fingerprint on the machine itself: ssh-keygen(1)."""
    name = FILES.get(kind) or ("ecdsa" if kind.startswith("ecdsa-") else "*")
    return f"ssh-keygen -lf /etc/ssh/ssh_host_{name}_key.pub"


def find_unseen(keys: Sequence[MachineKey], fingerprints: Iterable[str]) -> list[str]:
    """Return the fingerprints that were given and that no machine showed."""
    return sorted(set(fingerprints) - {key.offered.fingerprint for key in keys})


def format_unseen(unseen: Iterable[str]) -> Iterator[str]:
    """Yield a line for each fingerprint that was given and that no machine showed."""
    for fingerprint in unseen:
        yield f"--fingerprint {fingerprint}: no machine has this host key"


def _format_left(left: Sequence[MachineKey]) -> Iterator[str]:
    for key in left:
        yield f"{key.target.host}: not added: {key.target.name} {key.offered.fingerprint}"
    if left:
        yield "compare each with the machine's own console; then answer y on a terminal, or type:"
        yield f"  --fingerprint {left[0].offered.fingerprint}"


def _serialize_key(key: MachineKey) -> dict[str, object]:
    return {
        "host": key.target.host,
        "gateway": key.target.jump,
        "name": key.target.name,
        "type": key.offered.kind,
        "fingerprint": key.offered.fingerprint,
        "state": key.state,
    }

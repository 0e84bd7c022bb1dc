"""Applies a plan of the fabric: tried on all hosts, proven, then kept; or undone on all of them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sparkfleet.errors import SparkfleetError
from sparkfleet.facts import HostFacts, gather_facts
from sparkfleet.links.addressing.plan import FabricInputs, FabricPlan
from sparkfleet.links.addressing.surveying import (
    parse_differences,
    parse_trial,
    read_login_address,
    run_netconfig,
)
from sparkfleet.links.reachability.active_gate import run_active_gate
from sparkfleet.links.selection import select_fabric
from sparkfleet.model import Host, Severity, Verdict

if TYPE_CHECKING:
    from sparkfleet.remote.connection import Connection
    from sparkfleet.remote.pool import ConnectionPool

T = TypeVar("T")
REVERT_AFTER = 120.0  # seconds until a host undoes a change that is not confirmed
MARGIN = 0.25  # of that time is left for the confirmation
TRYING = 90.0  # seconds for a host to put a change into effect
UNDOING = 60.0  # seconds for a host to undo it
PAUSE = 0.5  # seconds between two proofs
REQUIRED_CHECKS = (  # that have to pass before a change is kept
    "link.path",
    "link.misplugged",
    "link.identity",
    "link.mtu_path",
    "link.ping",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRun:
    """A run that applies `plan`; `say` gets a line for each step. `seconds` is the hosts' timer."""

    inputs: FabricInputs
    plan: FabricPlan
    open_pool: Callable[[], ConnectionPool]
    say: Callable[[str], None]
    seconds: float = REVERT_AFTER
    change_id: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def changed_hosts(self) -> tuple[Host, ...]:
        """The hosts on which something changes."""
        return tuple(host for host in self.inputs.hosts if not self.plan.changes[host.name].empty)

    def run_on(
        self,
        pool: ConnectionPool,
        request: Mapping[str, Any],
        parser: Callable[[Any], T],
    ) -> tuple[dict[str, T], dict[str, SparkfleetError]]:
        """Confirm or undo on all hosts that change; return the answers and the errors."""

        def work(connection: Connection) -> T:
            user = self._user(connection)
            return run_netconfig(connection, user, request, parser, timeout=UNDOING)

        answers = pool.map(work, self.changed_hosts)
        return dict(answers.values), dict(answers.errors)

    def _user(self, connection: Connection) -> str:
        return self.inputs.facts[connection.host.name].system.user


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """The end of a run: why it was undone ("" if it was kept), and the verdicts of the proof.

    `hosts` says for each host that changed how it is now.
    """

    problem: str = ""
    verdicts: tuple[Verdict, ...] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)


def apply_plan(run: ApplyRun) -> ApplyResult:
    """Try the changes on all hosts, prove the links, and keep the changes; else undo them.

    Whatever happens here, each host undoes the change by itself after `run.seconds`.
    """
    started = time.monotonic()
    try:
        problem = _try_changes(run)
        verdicts: tuple[Verdict, ...] = ()
        if not problem:
            run.say(f"tried; each host undoes it in {run.seconds:g} s unless the links are proven")
            problem, verdicts = _prove_links(run, started + run.seconds * (1 - MARGIN))
        if not problem:
            return _keep_changes(run, verdicts)
    except BaseException:  # Ctrl-C too
        run.say("interrupted: undoing the change")
        _undo_changes(run, started)
        raise
    run.say(f"not confirmed: {problem}")
    return ApplyResult(problem=problem, verdicts=verdicts, hosts=_undo_changes(run, started))


def _try_changes(run: ApplyRun) -> str:
    """Try the change on each host; return why one failed, "" if none did."""

    def attempt(connection: Connection) -> str:
        name = connection.host.name
        management = run.inputs.networks[name].management
        request = {
            "do": "try",
            "id": run.change_id,
            "seconds": run.seconds,
            "management": str(management or ""),
            **run.plan.changes[name].build_request(),
        }
        user = run.inputs.facts[name].system.user
        return run_netconfig(connection, user, request, parse_trial, timeout=TRYING)

    with run.open_pool() as pool:
        answers = pool.map(attempt, run.changed_hosts)
    problems = [f"{name}: {error.message}" for name, error in answers.errors.items()]
    problems += [f"{name}: {failed}" for name, failed in answers.values.items() if failed]
    return "; ".join(problems)


def _prove_links(run: ApplyRun, deadline: float) -> tuple[str, tuple[Verdict, ...]]:
    """Prove the links with logins of their own until they hold or time is up."""
    while True:
        try:
            problem, verdicts = _prove_once(run)
        except SparkfleetError as error:
            problem = "; ".join(str(each) for each in (error, *error.others))
            verdicts = ()
        if not problem or time.monotonic() + PAUSE > deadline:
            return problem, verdicts
        time.sleep(PAUSE)


def _prove_once(run: ApplyRun) -> tuple[str, tuple[Verdict, ...]]:
    hosts = run.inputs.hosts
    with run.open_pool() as pool:
        servers = pool.map(read_login_address, hosts).all()
        facts = pool.map(gather_facts, hosts).all()
        problems = [*find_unapplied(run.inputs, run.plan, facts, servers)]
        if problems:
            return "; ".join(problems), ()
        verdicts = run_active_gate(pool, select_fabric(facts, hosts), hosts)
    unproven = [
        verdict
        for verdict in verdicts
        if verdict.check in REQUIRED_CHECKS
        and verdict.severity in (Severity.ERROR, Severity.WARNING)
    ]
    return "; ".join(str(verdict) for verdict in unproven), verdicts


def find_unapplied(
    inputs: FabricInputs,
    plan: FabricPlan,
    facts: Mapping[str, HostFacts],
    servers: Mapping[str, str],
) -> Iterator[str]:
    """Yield what is not as planned: another management address, or a rail without its settings."""
    for name, network in inputs.networks.items():
        server = servers[name].partition("%")[0]
        if network.management and server != str(network.management):
            yield f"{name} answers at {server}, not at {network.management}"
        for rail in plan.rails[name]:
            netdev = facts[name].netdev(rail.name)
            addresses = netdev.addresses if netdev else ()
            if rail.address not in addresses or (netdev and netdev.mtu != rail.mtu):
                mine = ", ".join(map(str, addresses)) or "no address"
                mtu = netdev.mtu if netdev else None
                yield f"{name} {rail.name} has {mine} and MTU {mtu}"


def _keep_changes(run: ApplyRun, verdicts: tuple[Verdict, ...]) -> ApplyResult:
    with run.open_pool() as pool:
        request = {"do": "confirm", "id": run.change_id}
        answers, errors = run.run_on(pool, request, bool)
    states = dict.fromkeys(answers, "kept")
    states |= {name: f"not confirmed: {error.message}" for name, error in errors.items()}
    problem = "; ".join(f"{name}: {error.message}" for name, error in errors.items())
    return ApplyResult(problem=problem, verdicts=verdicts, hosts=states)


def _undo_changes(run: ApplyRun, started: float) -> Mapping[str, str]:
    """Undo the change on every host; where none answers, wait until its timer is over."""
    deadline = started + run.seconds + UNDOING
    waiting = {host.name for host in run.changed_hosts}
    states: dict[str, str] = {}
    said = False
    while True:
        with run.open_pool() as pool:
            request = {"do": "undo", "id": run.change_id}
            answers, errors = run.run_on(pool, request, parse_differences)
        for name in waiting & answers.keys():
            left = answers[name]
            states[name] = "as before" if not left else f"as before, but {'; '.join(left)}"
        if not said and waiting - answers.keys():
            names = ", ".join(sorted(waiting - answers.keys()))
            run.say(f"no answer from {names}, whose own timer undoes the change")
            said = True
        waiting -= answers.keys()
        if not waiting or time.monotonic() > deadline:
            break
        time.sleep(PAUSE)
    return {**states, **{name: f"unknown: {errors[name].message}" for name in waiting}}

"""Runs a case of `links.apply` on hosts without addresses, and judges how it ended.

A change that is not confirmed is undone by each host's own timer, whatever happens here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from tests.bare_hosts import FILES, LAB, is_pending, is_quiet, run_on_host
from tests.campaign.cases import CABLINGS, LINK_TASKS, LINKS, Case
from tests.campaign.running import Result, go_on_for, judge_end, list_events, quote_end
from tests.commandline import Child, Done, Event, becomes, type_command

CUT_OFF = ("management-lost", "ssh-dead", "power-off")
WAITS = "plan.pending"
PARTLY = "some hosts kept it"
NetworkState = tuple[str, tuple[tuple[str, int, tuple[str, ...]], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BareLab:
    """Hosts with cables of a shape and without addresses; `before` is what they were at first."""

    hosts: tuple[str, ...]
    before: Mapping[str, NetworkState]

    def run_case(self, case: Case) -> Result:
        """Run one case and then the next run, and revert; return what was wrong."""
        result = Result(case=case)
        others: list[Future[Done]] = []
        events = list_events(case, lambda: _type_task(case.other), others)
        if case.what in CUT_OFF:
            events = [Event(mark=case.mark, deed=lambda child: self._cut_off(child, case))]
        done = type_command(*LINK_TASKS[LINKS], *LAB, events=events)
        if case.kind == "fault":
            fleet.set_fault(case.host, case.what, clear=True)
        result.code = done.code
        judge_end(result, done, [other.result() for other in others])
        self._judge_hosts(result, done)
        self._judge_next_run(result)
        return result

    def _cut_off(self, child: Child, case: Case) -> None:
        """Lose a host until it has undone the change by itself."""
        go_on_for(child, case.after)
        fleet.set_fault(case.host, case.what)
        go_on_for(child, 1.0)
        if case.what != "power-off":
            becomes(lambda: not is_pending(case.host))
        fleet.set_fault(case.host, case.what, clear=True)

    def _judge_hosts(self, result: Result, done: Done) -> None:
        """Note a change that is still tried, and one that some hosts kept without a word of it."""
        if not becomes(lambda: not any(map(is_pending, self.hosts))):
            result.wrong.append("a host still tries the change")
        states = self.read_states()
        changed = [host for host in self.hosts if states[host] != self.before[host]]
        partly = 0 < len(changed) < len(self.hosts)
        killed = done.code < 0 and result.case.after  # while it was confirmed, perhaps
        reverted = result.case.other == "links.revert"  # host after host, perhaps not all
        if partly and not (PARTLY in done.output or killed or reverted):
            result.wrong.append(f"changed on {changed} alone:\n{quote_end(done)}")
        if done.code == 0 and not changed and not reverted:
            result.wrong.append(f"changed nothing:\n{quote_end(done)}")
        if done.code in (2, 4) and len(changed) == len(self.hosts) and not result.case.other:
            result.wrong.append(f"failed, and is kept:\n{quote_end(done)}")

    def _judge_next_run(self, result: Result) -> None:
        """Note a next run that does not complete, and what is left after it is reverted."""
        for words in (("links.apply", "--yes"), LINK_TASKS["links.revert"]):
            done = type_command(*words, *LAB)
            if WAITS in done.output:  # a host got the change after the run was killed
                becomes(lambda: not any(map(is_pending, self.hosts)))
                done = type_command(*words, *LAB)
            if done.code != 0:
                result.wrong.append(f"{words[0]} then ends with {done.code}:\n{quote_end(done)}")
        if not becomes(lambda: self.read_states() == self.before):
            result.wrong.append(f"left over: {self.read_states()}, not {self.before}")

    def read_states(self) -> dict[str, NetworkState]:
        """Return the network of each host."""
        return {host: read_network(host) for host in self.hosts}


def start_bare_lab(cabling: str) -> BareLab:
    """Boot hosts of a cabling, in place of the lab that runs."""
    lab: LabFleet = fleet.start_fleet(CABLINGS[cabling], cables=cabling, bare=True)
    hosts = tuple(host.name for host in lab.hosts)
    return BareLab(hosts=hosts, before={host: read_network(host) for host in hosts})


def read_network(host: str) -> NetworkState:
    """Return the files of the network of a host, and each netdev with its MTU and addresses."""
    assert becomes(lambda: is_quiet(host)), host
    files = run_on_host(host, "sh", "-c", f"{FILES} 2>/dev/null")
    netdevs = json.loads(run_on_host(host, "ip", "-j", "-4", "addr"))
    rows = [
        (
            str(netdev["ifname"]),
            int(netdev["mtu"]),
            tuple(sorted(f"{each['local']}/{each['prefixlen']}" for each in netdev["addr_info"])),
        )
        for netdev in netdevs
    ]
    return files, tuple(sorted(rows))


def _type_task(task: str) -> Done:
    return type_command(*LINK_TASKS[task], *LAB)

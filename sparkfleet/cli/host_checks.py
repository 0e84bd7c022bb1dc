"""`hosts.check`: the preflight of every host, and what stands against a start there."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict

from sparkfleet import links
from sparkfleet.actions.gather_facts import look
from sparkfleet.cli.asked import Asked
from sparkfleet.cli.inspection import exit_code
from sparkfleet.cli.resolution import Resolved, resolve, tell
from sparkfleet.cli.screen import screen
from sparkfleet.errors import SparkfleetError
from sparkfleet.facts import HostFacts
from sparkfleet.inventory.passwords import sudo_password
from sparkfleet.launch import memory
from sparkfleet.launch.machines import check_machine
from sparkfleet.launch.preflight import preflight
from sparkfleet.launch.survey import Survey
from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Answers, Pool
from sparkfleet.report import json
from sparkfleet.report.text import MARKS

Seen = tuple[HostFacts, Survey, Verdict | None]


def show_checks(asked: Asked) -> int:
    """Print a line for each verdict and each host that did not answer; return the exit code."""
    resolved = resolve(asked, needs_recipe=False)
    tell(asked, resolved)
    with Pool(open_link, forks=asked.forks) as pool:
        answers = pool.map(lambda link: _look(resolved, link), resolved.cluster.hosts)
    verdicts = _judge(resolved, answers)
    code = exit_code(answers.errors, refused=any(verdict.refuses for verdict in verdicts))
    if asked.output == "json":
        errors = {name: json.problem(one.problems[0]) for name, one in answers.errors.items()}
        content = {"verdicts": [asdict(verdict) for verdict in verdicts], "errors": errors}
        json.write(json.document(**content, exit_code=code), sys.stdout)
    else:
        _print(resolved, verdicts, answers.errors)
    return code


def _look(resolved: Resolved, link: Link) -> Seen:
    settings = Settings(host=link.host)
    facts, survey = look(link, settings, resolved.cluster.name, fabric=True)
    drop = None
    if settings.value("drop_caches"):
        drop = memory.may_drop(link, sudo_password(link.host.vars))
    return facts, survey, drop


def _judge(resolved: Resolved, answers: Answers[Seen]) -> tuple[Verdict, ...]:
    """Return the verdicts on the hosts that answered, host by host in rank order."""
    hosts = [host for host in resolved.cluster.hosts if host.name in answers.values]
    if not hosts:
        return ()
    facts = {name: seen[0] for name, seen in answers.values.items()}
    surveys = {name: seen[1] for name, seen in answers.values.items()}
    settings = {host.name: Settings(host=host) for host in hosts}
    found = [
        *(verdict for host in hosts for verdict in check_machine(facts[host.name])),
        *preflight(facts, surveys, settings, nodes=len(resolved.cluster.hosts)),
        *links.check_machines(links.fabric(facts, hosts), facts, hosts),
        *(seen[2] for seen in answers.values.values() if seen[2]),
    ]
    return tuple(verdict for host in hosts for verdict in found if verdict.host == host.name)


def _print(
    resolved: Resolved, verdicts: tuple[Verdict, ...], errors: Mapping[str, SparkfleetError]
) -> None:
    out = screen(sys.stdout)
    for verdict in verdicts:
        out.line(f"{verdict.severity}: {verdict}", MARKS[verdict.severity])
    for error in errors.values():
        out.line(f"error: {error}", MARKS[Severity.ERROR])
    counts = Counter(verdict.severity for verdict in verdicts)
    parts = [f"{counts[severity]} {severity}" for severity in Severity if counts[severity]]
    parts += [f"not checked: {', '.join(errors)}"] if errors else []
    out.line(f"{len(verdicts)} checks: {', '.join(parts)}", "bold")
    if len(resolved.cluster.hosts) > 1:
        out.line("the links between them: links.verify")

"""`hosts.check`: the preflight of every host, and what prevents a start there."""

from __future__ import annotations

from sparkfleet import links
from sparkfleet.actions.run.gather_facts import inspect_host
from sparkfleet.cli.context import CommandContext, open_cluster
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document, serialize_host_errors, serialize_verdicts
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.views.verdicts import print_host_verdicts
from sparkfleet.command_name import name_command
from sparkfleet.facts import HostFacts
from sparkfleet.inventory.passwords import read_sudo_password
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.preflight import page_cache
from sparkfleet.launch.preflight.endpoint_checks import check_open_endpoint
from sparkfleet.launch.preflight.login_checks import check_machine
from sparkfleet.launch.preflight.preflight import check_hosts
from sparkfleet.model import Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers

HostInspection = tuple[HostFacts, Survey, Verdict | None]


def show_checks(options: Options) -> int:
    """Print what was found, and each host that did not answer; return the exit code."""
    with open_cluster(options) as session:
        context = session.context
        answers = session.pool.map(
            lambda connection: _inspect_host(context, connection),
            context.cluster.hosts,
            repeatable=True,
        )
    verdicts = _check_hosts(context, answers)
    refused = any(verdict.refuses for verdict in verdicts)
    code = compute_exit_code(answers.errors.values(), refused=refused)
    if options.json:
        print_document(
            verdicts=serialize_verdicts(verdicts),
            errors=serialize_host_errors(answers.errors),
            exit_code=code,
        )
    else:
        print_host_verdicts(verdicts, answers.errors, verbose=options.verbose)
        if len(context.cluster.hosts) > 1:
            print_lines(f"to check the links between them: {name_command('links.verify')}")
    return code


def _inspect_host(context: CommandContext, connection: Connection) -> HostInspection:
    settings = Settings(host=connection.host)
    facts, survey = inspect_host(connection, settings, context.cluster.name, fabric=True)
    drop = None
    if settings.value("drop_caches"):
        drop = page_cache.check_drop_caches(connection, read_sudo_password(connection.host.vars))
    return facts, survey, drop


def _check_hosts(context: CommandContext, answers: Answers[HostInspection]) -> tuple[Verdict, ...]:
    """Return the verdicts on the hosts that answered, host by host in rank order."""
    hosts = [host for host in context.cluster.hosts if host.name in answers.values]
    if not hosts:
        return ()
    facts = {name: inspection[0] for name, inspection in answers.values.items()}
    surveys = {name: inspection[1] for name, inspection in answers.values.items()}
    settings = {host.name: Settings(host=host) for host in hosts}
    verdicts = [
        *(verdict for host in hosts for verdict in check_machine(facts[host.name])),
        *check_hosts(facts, surveys, settings, nodes=len(context.cluster.hosts)),
        *check_open_endpoint(Settings(host=context.cluster.head)),
        *links.check_machines(links.select_fabric(facts, hosts), facts, hosts),
        *(inspection[2] for inspection in answers.values.values() if inspection[2]),
    ]
    return tuple(verdict for host in hosts for verdict in verdicts if verdict.host == host.name)

"""`links.verify`: the checks of the links gate, and whether measured rates are current."""

from __future__ import annotations

from sparkfleet import links
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.links.receipts import explain_unmeasured
from sparkfleet.cli.links.run_in_progress import RunInProgress, find_run
from sparkfleet.cli.links.session import open_fabric_session
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document, serialize_verdicts
from sparkfleet.cli.views.tables import create_console
from sparkfleet.cli.views.verdicts import print_verdicts
from sparkfleet.command_name import name_command
from sparkfleet.model import Verdict
from sparkfleet.verdicts import downgrade_refusals, warning


def verify_links(options: Options) -> int:
    """Run the static and the active gate, print the verdicts, and return 0, or 2 if one refuses."""
    with open_fabric_session(options) as session:
        run = find_run(session.pool, session.cluster.name, session.hosts)
        verdicts = links.run_gate(
            session.pool, session.fabric, session.facts, session.hosts, named_ports=run is None
        )
        verdicts += (build_ports_verdict(run),) if run else ()
        unmeasured = explain_unmeasured(session)
    if options.allow_degraded:
        verdicts = downgrade_refusals(verdicts)
    if options.json:
        print_document(
            verdicts=serialize_verdicts(verdicts),
            degraded=options.allow_degraded,
            rates=unmeasured or "measured",
        )
    else:
        print_verdicts(create_console(), verdicts, verbose=options.verbose)
        create_console().print(
            f"rates: no current measurement, {unmeasured}; to measure them: "
            f"{name_command('links.bench')}, or the next {name_command('cluster.up')}"
            if unmeasured
            else "rates: measured, and the receipt is current"
        )
    return compute_exit_code(refused=any(verdict.refuses for verdict in verdicts))


def build_ports_verdict(run: RunInProgress) -> Verdict:
    """Return what is shown where the ports of the executor were left to a run."""
    return warning(
        "link.ports",
        run.host,
        "ports of the executor",
        expected="a connection from every host",
        seen=f"no attempt: {run}",
        source="the lock of the cluster",
        fix="run this again once it has ended",
    )

"""`links.verify`: the checks of the links gate, and whether measured rates are current."""

from __future__ import annotations

from sparkfleet import links
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.links.receipts import explain_unmeasured
from sparkfleet.cli.links.session import open_fabric_session
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document, serialize_verdicts
from sparkfleet.cli.views.tables import create_console
from sparkfleet.cli.views.verdicts import print_verdicts
from sparkfleet.door import command_name
from sparkfleet.verdicts import downgrade_refusals


def verify_links(options: Options) -> int:
    """Run the static and the active gate, print the verdicts, and return 0, or 2 if one refuses."""
    with open_fabric_session(options) as session:
        verdicts = links.run_gate(session.pool, session.fabric, session.facts, session.hosts)
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
            f"rates: no current measurement, {unmeasured}; {command_name('cluster.up')} measures"
            if unmeasured
            else "rates: measured, and the receipt is current"
        )
    return compute_exit_code(refused=any(verdict.refuses for verdict in verdicts))

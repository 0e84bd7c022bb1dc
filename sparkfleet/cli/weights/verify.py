"""`weights.verify`: whether every node has every file of the recipe, by hash."""

from __future__ import annotations

from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.views.documents import print_document, serialize_verdicts
from sparkfleet.cli.views.screen import print_host_errors
from sparkfleet.cli.views.verdicts import print_verdict_lines
from sparkfleet.cli.weights.options import VerifyOptions
from sparkfleet.cli.weights.session import (
    open_staging_session,
    read_weights_dir,
    serialize_host_messages,
)
from sparkfleet.model import Verdict
from sparkfleet.remote.connection import Connection
from sparkfleet.weights.inspection import HashedCallback
from sparkfleet.weights.transfer import stage


def show_verdicts(options: VerifyOptions) -> int:
    """Print what every node holds of the recipe; return 2 where something is wrong."""

    def prove(connection: Connection, hashed: HashedCallback) -> list[Verdict]:
        host_verdicts: dict[Verdict, None] = {}
        for model in session.models:
            proven = stage.verify_weights(
                connection,
                model.manifest,
                read_weights_dir(connection),
                full=options.full,
                on_hashed=hashed,
            )
            host_verdicts |= dict.fromkeys(proven)
        return list(host_verdicts)

    with open_staging_session(options) as session:
        answers = session.run_on_hosts(prove)
    verdicts = [verdict for host_verdicts in answers.values.values() for verdict in host_verdicts]
    if options.json:
        print_document(
            verdicts=serialize_verdicts(verdicts), errors=serialize_host_messages(answers)
        )
    else:
        print_verdict_lines(verdicts)
        print_host_errors(answers.errors)
    refused = any(verdict.refuses for verdict in verdicts)
    return compute_exit_code(answers.errors.values(), refused=refused)

"""Variables of `cluster.watch`: whom it notifies, and the page that it serves."""

from __future__ import annotations

from sparkfleet.variables.variable import Kind, Variable

ROWS = (
    Variable(
        name="notify",
        kind=Kind.MAPPING,
        help="where cluster.watch reports events: webhook: {from_file: PATH} with a URL in the "
        "file, and command: [PROGRAM, ARGUMENT], which gets the event as JSON on standard input",
        secret=True,
    ),
    Variable(
        name="page",
        kind=Kind.MAPPING,
        help="cluster.watch serves the page of the cluster: bind: ADDRESS:PORT, by default "
        "127.0.0.1:8090, and token_file: PATH, required unless ADDRESS is a loopback one",
    ),
)

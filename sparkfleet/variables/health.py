"""What is looked after on each host: its memory, and its GPU's clock."""

from __future__ import annotations

from sparkfleet.variables.variable import Kind, Variable

ROWS = (
    Variable(
        name="guard",
        kind=Kind.FLAG,
        help="end the ranks of a host that runs out of memory, before SSH to it dies",
        default=True,
    ),
    Variable(
        name="guard_loading",
        kind=Kind.SIZE,
        help="MemAvailable below which the guard ends the ranks while they start",
        default="5GiB",  # COD arms a 5 GiB startup guard, 3 GiB steady: facts 2.4
        minimum=0,
    ),
    Variable(
        name="guard_serving",
        kind=Kind.SIZE,
        help="MemAvailable below which the guard ends the ranks once they serve",
        default="3GiB",
        minimum=0,
    ),
    Variable(
        name="guard_samples",
        kind=Kind.INTEGER,
        help="samples in a row, four a second, that must be below before the guard acts",
        default=2,
        minimum=1,
    ),
    Variable(
        name="drop_caches",
        kind=Kind.FLAG,
        help="empty the page cache right before a start, with `sudo`: vLLM counts it as used",
        default=False,
    ),
    Variable(
        name="engine_clock_check",
        kind=Kind.FLAG,
        help="read the clock of an idle GPU under two seconds of load before a start",
        default=True,
    ),
)

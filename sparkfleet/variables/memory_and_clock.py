"""Variables for the memory and the GPU clock of each host."""

from __future__ import annotations

from sparkfleet.variables.variable import Kind, Variable

ROWS = (
    Variable(
        name="guard",
        kind=Kind.FLAG,
        help="kill the ranks of a host that runs out of memory, before SSH stops responding",
        default=True,
    ),
    Variable(
        name="guard_loading",
        kind=Kind.SIZE,
        help="MemAvailable below which the guard kills the ranks while they start",
        default="5GiB",  # as christopherowen/spark-ds41f: 5 GiB at startup, 3 GiB while serving
        minimum=0,
    ),
    Variable(
        name="guard_serving",
        kind=Kind.SIZE,
        help="MemAvailable below which the guard kills the ranks while they serve",
        default="3GiB",
        minimum=0,
    ),
    Variable(
        name="guard_samples",
        kind=Kind.INTEGER,
        help="consecutive samples, four per second, that must be below the limit",
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
        name="gpu_clock_max",
        kind=Kind.INTEGER,
        help="GPU clock limit in MHz while the cluster serves, such as 2150, for a host that shuts "
        "down under load; set with `sudo`, and lifted by cluster.down",
        minimum=200,
    ),
    Variable(
        name="engine_clock_check",
        kind=Kind.FLAG,
        help="read the clock of an idle GPU under two seconds of load before a start",
        default=True,
    ),
)

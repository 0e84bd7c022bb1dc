"""`cluster.drift`: the running deployment against the inventory."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet.cli.cluster.watching.enable import has_unit_drift
from sparkfleet.cli.exit_codes import REFUSED
from sparkfleet.cli.options import Options
from sparkfleet.cli.playbook.run_playbook import run_playbook


def show_drift(options: Options) -> int:
    """Run the playbook of the comparison, then compare the unit of `cluster.enable`.

    Return the exit code.
    """
    reason = "cluster.drift is read-only"
    code = run_playbook("cluster-drift", replace(options, check=True, allow_degraded=reason))
    if code or options.json:
        return code
    return REFUSED if has_unit_drift(options) else 0

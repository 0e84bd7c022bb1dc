"""Report the causes of a failed run, from the logs saved before it was rolled back."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet.actions.run_context import RunContext
from sparkfleet.cli.doctor.view import format_finding, format_first_error
from sparkfleet.doctor.diagnosis import Diagnosis, diagnose_logs
from sparkfleet.doctor.logs import INTERRUPTED, load_log_bundle
from sparkfleet.report.events import Note

MAX_CAUSES = 3  # causes that are shown; further ones are mostly their consequences


def report_causes(run: RunContext) -> str:
    """Report the causes in the saved logs of all hosts; return the first, "" if none is known."""
    case = load_log_bundle(run.log_dir)
    logs = tuple(log for log in case.logs if not log.name.startswith(INTERRUPTED))
    diagnosis = diagnose_logs(replace(case, logs=logs), addresses=_map_fabric_addresses(run))
    for finding in diagnosis.causes[:MAX_CAUSES]:
        run.report(Note(text="\n".join(format_finding(finding)), level="error"))
    for error in diagnosis.errors:
        run.report(Note(text=f"no known cause; {format_first_error(error)}", level="error"))
    return summarize_diagnosis(diagnosis)


def summarize_diagnosis(diagnosis: Diagnosis) -> str:
    """Return the first cause as a line for an event, or the first error where none is known."""
    for finding in diagnosis.causes:
        return f"{finding.host}: {finding.cause} [{finding.id}] {finding.log}:{finding.line}"
    for error in diagnosis.errors:
        return f"{error.host}: first error, no known cause: {error.log}:{error.line}: {error.text}"
    return ""


def _map_fabric_addresses(run: RunContext) -> dict[str, str]:
    """Return host names by fabric address, as Ray's log lines name them."""
    fabric = run.state.fabric
    if fabric is None:
        return {}
    return {str(fabric.address(host.name)): host.name for host in run.cluster.hosts}

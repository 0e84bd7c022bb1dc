"""`gateway_start`: write the files of the gateway, and start or reload HAProxy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.gateway.host import (
    locate_gateway,
    reload_gateway,
    start_gateway,
    write_gateway_files,
)
from sparkfleet.launch.gateway.rendering import FILES
from sparkfleet.launch.gateway.state import list_gateway_changes
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.remote.connection import Connection
from sparkfleet.variables.gateway import GATEWAY


class StartGateway(Action[NoArgs]):
    """Write the files once HAProxy has accepted them, then start or reload it, if they differ.

    A reload starts a new worker; streams of the one before go on to their ends. Undo restores the
    previous files, and reloads or stops.
    """

    name = "gateway_start"
    requires = ("gateway",)
    undoes = True

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Plan the changes of files, and the start or the reload."""
        state = run.gateway
        changes = tuple(list_gateway_changes(state))
        message = "" if changes else "running as configured"
        return {name: Plan(changes=changes, message=message) for name in inspected}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Write, and start or reload."""
        state = run.gateway
        write_gateway_files(connection, state.settings, state.rendered.files)
        if state.look.runs:
            reload_gateway(connection, state.settings, state.rendered.hash)
            return plan
        about = DeploymentRecord(
            run=run.run_id,
            recipe=GATEWAY,
            hosts=(connection.host.name,),
            listens_on=state.gateway.settings.bind,
            port=state.gateway.settings.port,
        )
        start_gateway(connection, state.settings, state.rendered.hash, about)
        return plan

    def salvage(self, run: RunContext, connection: Connection) -> None:
        """Save the log of HAProxy."""
        processes.save_logs(connection, locate_gateway(run.gateway.settings), run.log_dir)

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Restore the previous files; the previous gateway keeps running, or none as before."""
        state = run.gateway
        if not state.look.runs:
            processes.stop_processes(connection, locate_gateway(state.settings))
        before = {name: state.look.files.get(name) for name in FILES}
        write_gateway_files(connection, state.settings, before)
        if state.look.runs:
            reload_gateway(connection, state.settings, state.look.hash)

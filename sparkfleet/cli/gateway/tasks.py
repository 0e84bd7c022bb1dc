"""`gateway.*`: one address for the models of all clusters."""

from __future__ import annotations

from sparkfleet.cli.command import command
from sparkfleet.cli.gateway.options import GatewayLogsOptions
from sparkfleet.cli.options import CHECK, DIFF, INVENTORY, LOCK, OUTPUT, REPORT, Options


@command("gateway.up", INVENTORY, REPORT, CHECK, DIFF, LOCK)
def up(options: Options) -> int:
    """Start the gateway, or reload it for the clusters that serve now; streams are not cut.

    HAProxy on one host answers at one port for every model and alias of the inventory. It checks
    the API keys of clients, and sends each request to the least busy copy that serves. Its files
    are checked before anything changes, and a failed change is rolled back. `cluster.up` does the
    same at its end.

      {task:gateway.up} --check --diff      what would change
      {task:gateway.up}                     needs in the inventory: gateway: {port: 8080}
    """
    from sparkfleet.cli.gateway.start_stop import run_gateway_up

    return run_gateway_up(options)


@command("gateway.down", INVENTORY, REPORT, CHECK, LOCK)
def down(options: Options) -> int:
    """Stop the gateway; requests have as long as `drain` to finish. Clusters keep serving.

    {task:gateway.down}
    {task:cluster.down} --all      the gateway and every cluster
    """
    from sparkfleet.cli.gateway.start_stop import run_gateway_down

    return run_gateway_down(options)


@command("gateway.status", INVENTORY, OUTPUT)
def status(options: Options) -> int:
    """Show whether the gateway serves: each model, its clusters, and which of them get requests.

    A cluster gets requests where its health says so and HAProxy reaches it. The exit code is 0
    where the gateway runs as configured and every cluster that serves gets requests, or where it
    was not started; 4 if its host was not reached, and 2 otherwise.

      {task:gateway.status}
      {task:gateway.status} --output json
    """
    from sparkfleet.cli.gateway.status import show_gateway

    return show_gateway(options)


@command("gateway.logs", INVENTORY)
def logs(options: GatewayLogsOptions) -> int:
    """Show the end of the gateway's log: each request with its user, model, cluster and time.

    It contains no keys, prompts or answers.

      {task:gateway.logs} --follow
    """
    from sparkfleet.cli.gateway.logs import show_gateway_logs

    return show_gateway_logs(options)

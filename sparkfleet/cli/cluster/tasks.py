"""`cluster.*`: starting, stopping and observing what a cluster serves."""

from __future__ import annotations

from sparkfleet.cli.cluster.options import (
    ClusterUpOptions,
    ClusterWatchOptions,
    DownOptions,
    EnableOptions,
    EventsOptions,
    LogsOptions,
    MonitoringOptions,
    PageOptions,
    RenderOptions,
    ReportOptions,
    StatusOptions,
    SwitchOptions,
    UnlockOptions,
)
from sparkfleet.cli.command import command
from sparkfleet.cli.options import (
    BECOME,
    CHECK,
    CLUSTER,
    CONFIRM,
    DEGRADED,
    DIFF,
    EXECUTOR,
    FORKS,
    HOSTS,
    INVENTORY,
    LOCK,
    OUTPUT,
    RECIPE,
    RUN,
    SIZE,
    Options,
)

START = (RUN, SIZE, CONFIRM, EXECUTOR, CHECK, DIFF, LOCK, BECOME, DEGRADED)


@command("cluster.up", *START, RECIPE, whole_cluster=True)
def up(options: ClusterUpOptions) -> int:
    """Bring the cluster up: from reachable Sparks to an endpoint that answered a smoke prompt.

    Checks hosts and links, stages the weights, starts Ray and vLLM, waits for every rank and asks
    a question with a known answer. A second run changes nothing. Runs playbooks/cluster-up.yml.
    Without --tp, --pp, --dp or --solo it uses as many Sparks of the cluster as the recipe can use,
    a power of two: of three Sparks, two. It asks before it changes the size of what is serving, and
    before a recipe runs third-party code; without a terminal it needs --yes.

      {task:cluster.up}                          as many Sparks as the recipe can use
      {task:cluster.up} --tp 2                   two Sparks, one model
      {task:cluster.up} --tp 2 --executor mp     the same, joined by vLLM itself instead of Ray
      {task:cluster.up} --tp 2 --pp 2            four Sparks: halves of the layers, halves of each
      {task:cluster.up} --dp 2                   two copies of the model at one address
      {task:cluster.up} --solo                   one Spark, no fabric, no Ray
      {task:cluster.up} --tp 2 --check --diff    what would change
      {task:cluster.up} --all                    every cluster of the inventory
    """
    from sparkfleet.cli.cluster.start_stop import run_cluster_up

    return run_cluster_up(options)


@command("cluster.render", HOSTS, SIZE, EXECUTOR, RECIPE, FORKS, whole_cluster=True)
def render(options: RenderOptions) -> int:
    """Write every file that would run on every host into a folder, to read or to run by hand.

    Reads from the hosts what the files depend on, and writes nothing there.

      {task:cluster.render} --tp 2 --recipe gpt-oss-120b --out rendered
    """
    from sparkfleet.cli.cluster.render import render_files

    return render_files(options)


@command("cluster.down", RUN, CHECK, LOCK)
def down(options: DownOptions) -> int:
    """Stop the cluster, and verify that it stopped; only processes and containers with its label.

    Stops every host of the cluster, also those that `cluster.up --tp N` left out. With --orphans
    also clusters managed by sparkfleet on these hosts that the inventory does not define. A service
    of `cluster.enable` on this machine is stopped first; the next start of the cluster starts it.
    """
    from sparkfleet.cli.cluster.start_stop import run_cluster_down

    return run_cluster_down(options)


@command("cluster.switch", *START, whole_cluster=True)
def switch(options: SwitchOptions) -> int:
    """Serve another recipe: stage and check it while the old one serves, then swap.

    If the new one fails, the old one is started again. Compiled kernels are kept. It is cluster.up
    with that recipe; without --tp, --pp, --dp or --solo it uses as many Sparks as that can use.

      {task:cluster.switch} qwen3.6-27b-nvfp4
    """
    from sparkfleet.cli.cluster.start_stop import start_cluster

    return start_cluster(options)


@command("cluster.drift", RUN, SIZE, EXECUTOR, RECIPE, DIFF, whole_cluster=True)
def drift(options: Options) -> int:
    """Show drift between the running deployment and the inventory; writes nothing.

    Exit code 2 if there is any, also in the unit of `cluster.enable` on this machine. Give it the
    options that `cluster.up` was given; without --tp, --pp, --dp or --solo it compares as many
    Sparks as the recipe can use. --diff shows the differences of files.
    """
    from sparkfleet.cli.cluster.drift import show_drift

    return show_drift(options)


@command("cluster.lock", CLUSTER, LOCK)
def lock(options: Options) -> int:
    """Hold the lock of the cluster until Ctrl-C, so that no run changes it meanwhile."""
    from sparkfleet.cli.cluster.lock import hold_lock

    return hold_lock(options)


@command("cluster.unlock", CLUSTER)
def unlock(options: UnlockOptions) -> int:
    """Release a stale lock, such as after a cut cable, and show who held it.

    A lock is released when its holder ends; a host whose cable was cut does not notice that.
    """
    from sparkfleet.cli.cluster.lock import unlock_cluster

    return unlock_cluster(options)


@command("cluster.status", HOSTS, OUTPUT)
def status(options: StatusOptions) -> int:
    """Show whether the cluster serves, also as exit code, and what runs on every host.

    The first line is the verdict on all hosts together: serving, starting, degraded, wedged, rank
    lost, stopped or unknown, with its reason and what to type next; docs/health.md. Exits with 0
    if it serves or was stopped, 4 if a host was not reached, and 2 otherwise. A host that does not
    answer is shown as unknown; the others are shown as usual.

      {task:cluster.status} --watch              every two seconds, until Ctrl-C
      {task:cluster.status} --output json        also the health of each rank
    """
    from sparkfleet.cli.cluster.status import show_status

    return show_status(options)


@command("cluster.list", INVENTORY, OUTPUT)
def list_clusters(options: Options) -> int:
    """Show every cluster of the inventory: its state, model, address, hosts and memory.

    Clusters that share hosts may serve at the same time where their memory and ports allow it; what
    they claim twice is shown below the table. The exit code combines those of
    `cluster.status`: 6 where some hosts failed and others were not reached.

      {task:cluster.list}
      {task:cluster.list} --output json
    """
    from sparkfleet.cli.cluster.list import show_clusters

    return show_clusters(options)


@command("cluster.logs", HOSTS)
def logs(options: LogsOptions) -> int:
    """Show the end of every log of every host, and with --follow new lines as they are written.

    {task:cluster.logs}
    {task:cluster.logs} --follow --limit spark-01
    """
    from sparkfleet.cli.cluster.logs import show_logs

    return show_logs(options)


@command("cluster.events", CLUSTER, OUTPUT)
def events(options: EventsOptions) -> int:
    """Show what happened to the cluster: starts, stops, relaunches, changes of health, and causes.

    The log is on the head of the cluster, so every machine sees the same. It is bounded: the oldest
    events are dropped.

      {task:cluster.events}
      {task:cluster.events} --lines 200 --output json
      {task:cluster.events} --follow
    """
    from sparkfleet.cli.cluster.watching.events import show_events

    return show_events(options)


@command("cluster.report", CLUSTER, FORKS)
def report(options: ReportOptions) -> int:
    """Write all that is known about the cluster into one HTML file, to read, print or send.

    Health of each rank, links with measured rates, the values of the deployment and where each is
    set, benchmarks, timings, events, versions, and what the doctor finds in the logs. The file
    is self-contained. Changes nothing on the hosts.

      {task:cluster.report} --html report.html
    """
    from sparkfleet.cli.cluster.report import write_report

    return write_report(options)


@command("cluster.page", CLUSTER, FORKS)
def page(options: PageOptions) -> int:
    """Serve the page of the cluster, live, until Ctrl-C: what cluster.report writes, kept current.

    Read-only. On this machine alone unless --bind says otherwise; other machines then need the
    token in --token-file. `/metrics` is for Prometheus. With `page` in the inventory, cluster.watch
    serves the same page from its own checks.

      {task:cluster.page}                              then open http://127.0.0.1:8090/
      {task:cluster.page} --bind 0.0.0.0:8090 --token-file page-token
    """
    from sparkfleet.cli.cluster.page import serve_page

    return serve_page(options)


@command("cluster.export", CLUSTER)
def export(options: MonitoringOptions) -> int:
    """Write what Prometheus needs to find the metrics of the cluster, or a dashboard for Grafana.

    For prometheus a list of targets for `file_sd_configs`: vLLM, and each host as the page of
    `cluster.watch` or `cluster.page` reports it. For grafana a dashboard to import.

      {task:cluster.export} --to prometheus --out /etc/prometheus/sparkfleet.json
      {task:cluster.export} --to grafana --out dashboard.json
    """
    from sparkfleet.cli.cluster.export import export_monitoring

    return export_monitoring(options)


@command("cluster.watch", CLUSTER, FORKS)
def watch(options: ClusterWatchOptions) -> int:
    """Watch the cluster until Ctrl-C or SIGTERM, and start it again when it breaks.

    Each check judges the health of all hosts. Where two checks in a row find a lost rank or an
    engine that does not answer, the logs of all hosts are saved, and all ranks are started again
    as by the last `cluster.up`. After a relaunch it waits 2, 5, then 15 minutes; after 3 relaunches
    in 6 hours it gives up. A host that does not answer is waited for, and what a person stopped
    stays stopped. `notify` in the inventory sends its events to a webhook or a command.

      {task:cluster.watch}
      {task:cluster.watch} --once     one check; the second in a row relaunches a broken cluster
      {task:cluster.events} --follow  what it did
    """
    from sparkfleet.cli.cluster.watching.watch import watch_cluster

    return watch_cluster(options)


@command("cluster.enable", CLUSTER, CHECK, DIFF)
def enable(options: EnableOptions) -> int:
    """Watch the cluster from this machine as a systemd service, so that it survives reboots.

    Type it on the head, or on a control machine that is always on: the service runs
    `cluster.watch` there, with this inventory and this folder, and after a boot it waits until all
    hosts answer. With sudo, or as root, it is a system unit; otherwise a user unit.
    Lingering is enabled for a user other than root. A second run changes nothing.

      {task:cluster.enable} --check --diff      the unit file, and the commands
      {task:cluster.enable}
      {task:cluster.enable} --on-head           from a control machine that is not always on
    """
    from sparkfleet.cli.cluster.watching.enable import enable_watch

    return enable_watch(options)


@command("cluster.disable", CLUSTER, CHECK, DIFF)
def disable(options: EnableOptions) -> int:
    """Stop watching the cluster from this machine: remove the service of `cluster.enable`.

    The model keeps serving.
    """
    from sparkfleet.cli.cluster.watching.enable import disable_watch

    return disable_watch(options)

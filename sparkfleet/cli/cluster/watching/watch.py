"""`cluster.watch`: looks at a cluster, and starts it again where it is broken."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sparkfleet.cli.cluster.options import ClusterWatchOptions
from sparkfleet.cli.cluster.watching.events import (
    build_watch_event,
    fetch_event_log,
    record_watch_event,
)
from sparkfleet.cli.cluster.watching.relaunch import (
    read_start_request,
    relaunch_cluster,
    save_cluster_logs,
)
from sparkfleet.cli.context import (
    ClusterSession,
    CommandContext,
    open_pool,
    print_run_started,
    resolve_context,
)
from sparkfleet.cli.exit_codes import REFUSED
from sparkfleet.cli.gateway.watching import GatewayWatch
from sparkfleet.cli.page_content.publisher import PagePublisher, open_watch_page
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import Interrupted, SparkfleetError, UnreachableError
from sparkfleet.launch.endpoint.health import (
    ClusterHealth,
    HealthState,
    judge_health,
    look_at_cluster,
)
from sparkfleet.launch.host.processes import locate_deployment
from sparkfleet.launch.watching.breaker import Decision, Step, decide_next_step, find_verdict
from sparkfleet.launch.watching.events import ClusterEvent, EventKind, EventLog, record_event
from sparkfleet.launch.watching.notify import NotifySettings, read_notify_settings, send_event
from sparkfleet.launch.watching.start_request import StartRequest
from sparkfleet.recipes.settings import Settings

QUIET = (HealthState.SERVING, HealthState.STARTING, HealthState.STOPPED)  # no news as a first state
NO_CAUSE = "none found in the logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchResult:
    """One look, the decision, and for a relaunch how the cluster was started."""

    health: ClusterHealth
    decision: Decision
    request: StartRequest | None = None

    @property
    def code(self) -> int:
        """The exit code of a watch that ends with this look."""
        if self.health.works or self.health.state is HealthState.STOPPED:
            return 0 if self.decision.step is Step.NOTHING else REFUSED
        return UnreachableError.exit_code if self.health.state is HealthState.UNKNOWN else REFUSED


def watch_cluster(options: ClusterWatchOptions) -> int:
    """Look and act until Ctrl-C or SIGTERM, then return 0; or once, and return that look's code.

    For systemd any other code is a failure, also of a service that it was asked to stop.
    """
    context = resolve_context(options, needs_recipe=False)
    notify = read_notify_settings(context.cluster.head)
    code = 0
    with (
        contextlib.suppress(KeyboardInterrupt),
        open_watch_page(context.cluster.head, once=options.once) as page,
    ):
        watcher = Watcher(context, options, notify, page)
        print_run_started(options, context)
        while True:
            began = time.monotonic()
            code = watcher.watch_once()
            if options.once or code == Interrupted.exit_code:
                break
            time.sleep(max(0.0, options.every - (time.monotonic() - began)))
    watcher.end()
    return code if options.once and code != Interrupted.exit_code else 0


class Watcher:
    """Watches one cluster. Each look opens its own connections: those to a host that was off break.

    `_log` is the last log that was read, for looks at which the head does not answer.
    """

    def __init__(
        self,
        context: CommandContext,
        options: ClusterWatchOptions,
        notify: NotifySettings,
        page: PagePublisher | None = None,
    ) -> None:
        self._context = context
        self._options = options
        self._notify = notify
        self._page = page
        self._gateway = GatewayWatch(inventory=context.inventory, cluster=context.cluster.name)
        self._log = EventLog()
        self._shown: set[str] = set()  # lines of this look, and of the one before
        self._shown_before: set[str] = set()
        self._announced = options.once  # cron would fill the log
        self._is_head_away = False  # at this look: asking it again would take as long again

    def watch_once(self) -> int:
        """Look, decide and act; return the exit code. No failure of a host is raised."""
        self._shown_before = self._shown
        self._shown = set()
        try:
            with self._open_session() as session:
                look = self._look(session)
            if look.request is None:
                return look.code
            return self._relaunch(look.request)
        except SparkfleetError as error:
            self._show("; ".join(str(problem) for problem in error.problems))
            return error.exit_code

    @contextlib.contextmanager
    def _open_session(self) -> Iterator[ClusterSession]:
        with open_pool(self._options) as pool:
            try:
                yield ClusterSession(context=self._context, pool=pool)
            except KeyboardInterrupt:
                pool.abort()
                raise

    def _look(self, session: ClusterSession) -> WatchResult:
        seen = look_at_cluster(session.pool, self._context.cluster, ray=False)
        health = judge_health(seen)
        self._is_head_away = self._context.cluster.head.name in seen.errors
        if not self._is_head_away:
            with contextlib.suppress(SparkfleetError):  # the next look reads it
                self._log = fetch_event_log(session)
            self._announce(session)
        busy = any(host.busy for host in seen.hosts.values())
        decision = decide_next_step(health, self._log, busy=busy)
        known = str(health) in decision.reason
        self._show(decision.reason if known else f"{health}; {decision.reason}")
        self._record_verdict(session, health)
        self._follow_gateway(session, health)
        if decision.step is Step.GIVE_UP:
            self._record(session, ClusterEvent(kind=EventKind.GAVE_UP, text=decision.reason))
        if self._page is not None:
            self._page.publish(session, seen, self._log, f"The watcher: {decision.reason}")
        if decision.step is not Step.RELAUNCH:
            return WatchResult(health=health, decision=decision)
        return WatchResult(
            health=health, decision=decision, request=self._prepare_relaunch(session, health)
        )

    def _follow_gateway(self, session: ClusterSession, health: ClusterHealth) -> None:
        """Show the verdict to the gateway, if there is one; its failure does not stop the watch."""
        try:
            for line in self._gateway.follow(session.pool, health):
                self._show(line)
        except SparkfleetError as error:
            self._show(f"gateway: {error.message}")

    def _announce(self, session: ClusterSession) -> None:
        """Record that the watch began, at the first look at which the head answers."""
        if not self._announced:
            text = f"cluster.watch checks every {self._options.every:g} s"
            event = build_watch_event(EventKind.WATCHING, text)
            self._announced = self._record(session, event, notify=False)

    def end(self) -> None:
        """Record that the watch ends, if its begin was recorded."""
        if self._announced and not self._options.once:
            record_watch_event(
                self._context, self._options, EventKind.WATCH_ENDED, "cluster.watch was stopped"
            )

    def _prepare_relaunch(self, session: ClusterSession, health: ClusterHealth) -> StartRequest:
        """Save what the relaunch would destroy, and record that it begins."""
        request = read_start_request(session)
        folder, cause = save_cluster_logs(session, str(health))
        event = ClusterEvent(
            kind=EventKind.RELAUNCHING,
            text=str(health),
            host=health.host or "",
            recipe=request.recipe,
            cause=cause or NO_CAUSE,
            log=str(folder),
        )
        self._record(session, event)
        return request

    def _relaunch(self, request: StartRequest) -> int:
        code, refusal = relaunch_cluster(self._options, request)
        if refusal is not None:
            with self._open_session() as session:
                self._record(session, refusal)
        elif code != Interrupted.exit_code:  # the run has recorded it
            kind = EventKind.RELAUNCH_FAILED if code else EventKind.RELAUNCHED
            text = f"failed with exit code {code}" if code else "serving again"
            recipe = request.recipe
            self._send(ClusterEvent(kind=kind, text=text, at=time.time(), recipe=recipe))
        return code

    def _record_verdict(self, session: ClusterSession, health: ClusterHealth) -> None:
        """Record the verdict where it differs from the last one."""
        before = find_verdict(self._log.events)
        state = health.state.value
        if before is not None and before.state == state:
            return
        event = ClusterEvent(
            kind=EventKind.VERDICT, text=health.reason, state=state, host=health.host or ""
        )
        self._record(session, event, notify=before is not None or health.state not in QUIET)

    def _record(self, session: ClusterSession, event: ClusterEvent, *, notify: bool = True) -> bool:
        """Append an event to the log on the head, and send it; return whether the former worked.

        Neither failure stops the watch. Where the head is away, the event is only sent: the line of
        the look says why.
        """
        head = self._context.cluster.head
        location = locate_deployment(Settings(host=head), self._context.cluster.name)
        now = time.time()
        recorded = not self._is_head_away
        try:
            if recorded:
                now = record_event(session.pool.connect(head), location, event)
        except SparkfleetError as error:
            recorded = False
            self._show(f"the event {event.kind} could not be recorded: {error.message}")
        event = replace(event, at=now)
        self._log = replace(self._log, events=(*self._log.events, event))
        if notify:
            self._send(event)
        return recorded

    def _send(self, event: ClusterEvent) -> None:
        for line in send_event(self._notify, event, self._context.cluster.name):
            self._show(f"notify: {line}")

    def _show(self, text: str) -> None:
        """Print a line with the time, unless the look before printed the same."""
        if text not in self._shown_before:
            print_lines(f"{time.strftime('%H:%M:%S')} {text}")
        self._shown.add(text)

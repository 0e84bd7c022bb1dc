"""`serve.watch`: the load of an endpoint and its hosts, sampled repeatedly."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.live import Live

from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.serve.options import WatchOptions
from sparkfleet.cli.serve.session import ServeSession, open_serve_session
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.views.tables import create_cell, create_console
from sparkfleet.errors import SparkfleetError
from sparkfleet.launch.host.vitals import Vitals
from sparkfleet.quantities import format_memory
from sparkfleet.report import output_streams
from sparkfleet.vllm.metrics import Sample, ServerLoad, compute_load


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One sample of all hosts; `load` is None without the endpoint's metrics."""

    at: float  # s since the epoch
    healthy: bool
    load: ServerLoad | None
    sample: Sample | None
    vitals: Mapping[str, Vitals]
    errors: Mapping[str, SparkfleetError]

    @property
    def code(self) -> int:
        """The exit code of a watch that ends now."""
        return compute_exit_code(self.errors.values(), refused=not self.healthy)


def watch_load(options: WatchOptions) -> int:
    """Sample and show until Ctrl-C, or --count times; return the exit code of the last sample."""
    code = 0
    with (
        open_serve_session(options, must_work=False) as session,
        _open_display(options) as display,
        contextlib.suppress(KeyboardInterrupt),
    ):
        for turn, view in enumerate(_iterate_views(session, options.every), 1):
            display(view)
            code = view.code
            if turn == options.count or not output_streams.has_reader():
                break
    return code


def _iterate_views(session: ServeSession, pause: float) -> Iterator[View]:
    """Yield what is seen, `pause` seconds apart; rates are those since the look before."""
    last: Sample | None = None
    while True:
        view = _take_view(session, last)
        yield view
        last = view.sample
        time.sleep(pause)


def _take_view(session: ServeSession, last: Sample | None) -> View:
    answers = session.pool.map(
        lambda connection: session.query_vitals(connection, samples=1 if last else 2),
        session.hosts,
    )
    head_vitals = answers.values.get(session.served.head.name)
    samples = [*([last] if last else []), *(head_vitals.samples if head_vitals else ())]
    has_samples = bool(head_vitals and head_vitals.samples)
    return View(
        at=time.time(),
        healthy=bool(head_vitals and head_vitals.health),
        load=compute_load(samples[0], samples[-1]) if has_samples else None,
        sample=samples[-1] if has_samples else None,
        vitals=answers.values,
        errors=answers.errors,
    )


@contextlib.contextmanager
def _open_display(options: WatchOptions) -> Iterator[Any]:
    """Yield what shows a view: a document each, a picture that stays in place, or a line each."""
    if options.json:
        yield lambda view: print_document(in_line=True, **_build_view_document(view))
    elif sys.stdout.isatty():
        with Live(
            console=create_console(), auto_refresh=False, vertical_overflow="visible"
        ) as live:
            yield lambda view: live.update(create_cell("\n".join(_format_view(view))), refresh=True)
    else:
        yield lambda view: print_lines("; ".join(_format_view(view)))


def _format_view(view: View) -> Iterator[str]:
    clock = time.strftime("%H:%M:%S", time.localtime(view.at))
    silent = "is healthy, without metrics" if view.healthy else "does not answer"
    yield f"{clock} {view.load or f'the endpoint {silent}'}"
    for name, vitals in view.vitals.items():
        memory = vitals.memory
        free_memory = format_memory(memory.available) if memory else "?"
        yield f"{name} {free_memory} free"
    for name, error in view.errors.items():
        yield f"{name}: {error.message}"


def _build_view_document(view: View) -> dict[str, Any]:
    memory = {name: vitals.memory and asdict(vitals.memory) for name, vitals in view.vitals.items()}
    errors = {name: error.message for name, error in view.errors.items()}
    load = asdict(view.load) if view.load else None
    return {
        "at": view.at,
        "healthy": view.healthy,
        "load": load,
        "memory": memory,
        "errors": errors,
    }

"""`serve.watch`: what an endpoint does now, again and again."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.live import Live

from sparkfleet.cli.asked import Asked, duration, number
from sparkfleet.cli.inspection import exit_code
from sparkfleet.cli.screen import say
from sparkfleet.cli.serving import Site, site
from sparkfleet.cli.tables import cell, console
from sparkfleet.errors import SparkfleetError
from sparkfleet.launch import processes
from sparkfleet.launch.load import Load, Sample, between
from sparkfleet.launch.vitals import Vitals, ask_vitals
from sparkfleet.quantities import show_memory
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.report import json, lasting

EVERY = 2.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One look at all hosts; `load` is None where the endpoint does not tell."""

    at: float  # s since the epoch
    healthy: bool
    load: Load | None
    sample: Sample | None
    vitals: Mapping[str, Vitals]
    errors: Mapping[str, SparkfleetError]

    @property
    def code(self) -> int:
        """The exit code of a watch that ends now."""
        return exit_code(self.errors, refused=not self.healthy)


def watch_load(asked: Asked, *, every: str | None, count: str | None) -> int:
    """Look and show until Ctrl-C, or `count` times; return the exit code of the last look."""
    pause, most = duration("every", every, EVERY, least=0.1), number("count", count, 0)
    code = 0
    with site(asked) as found, _shower(asked) as show, contextlib.suppress(KeyboardInterrupt):
        for turn, view in enumerate(_views(found, pause), 1):
            show(view)
            code = view.code
            if turn == most or not lasting.heard():
                break
    return code


def _views(found: Site, pause: float) -> Iterator[View]:
    """Yield what is seen, `pause` seconds apart; rates are those since the look before."""
    last: Sample | None = None
    while True:
        view = _look(found, last)
        yield view
        last = view.sample
        time.sleep(pause)


def _look(found: Site, last: Sample | None) -> View:
    head, cluster = found.served.head.name, found.resolved.cluster.name

    def ask(link: Link) -> Vitals:
        place = processes.place(Settings(host=link.host), cluster)
        port = found.served.about.port if link.host.name == head else None
        return ask_vitals(link, place, port=port, looks=1 if last else 2)

    answers = found.pool.map(ask, found.hosts)
    seen = answers.values.get(head)
    samples = [*([last] if last else []), *(seen.samples if seen else ())]
    told = bool(seen and seen.samples)
    return View(
        at=time.time(),
        healthy=bool(seen and seen.health),
        load=between(samples[0], samples[-1]) if told else None,
        sample=samples[-1] if told else None,
        vitals=answers.values,
        errors=answers.errors,
    )


@contextlib.contextmanager
def _shower(asked: Asked) -> Iterator[Any]:
    """Yield what shows a view: a document each, a picture that stays in place, or a line each."""
    if asked.output == "json":
        yield lambda view: json.write(_document(view), sys.stdout, in_line=True)
    elif sys.stdout.isatty():
        with Live(console=console(), auto_refresh=False, vertical_overflow="visible") as live:
            yield lambda view: live.update(cell("\n".join(_lines(view))), refresh=True)
    else:
        yield lambda view: say("; ".join(_lines(view)))


def _lines(view: View) -> Iterator[str]:
    clock = time.strftime("%H:%M:%S", time.localtime(view.at))
    silent = "is healthy, without metrics" if view.healthy else "does not answer"
    yield f"{clock} {view.load or f'the endpoint {silent}'}"
    for name, vitals in view.vitals.items():
        memory = vitals.memory
        room = show_memory(memory.available) if memory else "?"
        yield f"{name} {room} free"
    for name, error in view.errors.items():
        yield f"{name}: {error.message}"


def _document(view: View) -> Mapping[str, Any]:
    memory = {name: one.memory and asdict(one.memory) for name, one in view.vitals.items()}
    errors = {name: error.message for name, error in view.errors.items()}
    load = asdict(view.load) if view.load else None
    return json.document(at=view.at, healthy=view.healthy, load=load, memory=memory, errors=errors)

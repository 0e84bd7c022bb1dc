"""What every node holds and lacks of a recipe's weights: `weights.verify` and `weights.plan`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from sparkfleet import links
from sparkfleet.actions.stage_weights import HERE, hashing, shared_over
from sparkfleet.cli.asked import Asked
from sparkfleet.cli.fabric import gather
from sparkfleet.cli.inspection import exit_code
from sparkfleet.cli.resolution import Resolved, first_line, resolve
from sparkfleet.cli.screen import say, screen
from sparkfleet.cli.tables import console, table
from sparkfleet.facts import HostFacts
from sparkfleet.model import Verdict
from sparkfleet.quantities import show_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Answers, Pool, T
from sparkfleet.report import json
from sparkfleet.report.text import MARKS, TextReporter
from sparkfleet.weights import stage
from sparkfleet.weights.inspection import Hashed, Inspection, inspect
from sparkfleet.weights.orders import Order, check_supply, orders, suppliers
from sparkfleet.weights.remarks import remarks
from sparkfleet.weights.routes import Shared, apart
from sparkfleet.weights.stage import Strategy
from sparkfleet.weights.wanted import Stock, stocks_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A look at the weights of all hosts: what is wanted, and `ask`, which tells its progress."""

    resolved: Resolved
    stocks: tuple[Stock, ...]
    pool: Pool
    reporter: TextReporter

    def ask(self, work: Callable[[Link, Hashed], T]) -> Answers[T]:
        """Return what `work` finds on each host; it is given whom to tell what it hashed."""

        def heard(link: Link) -> T:
            def hashed(done: int) -> None:
                if done:
                    self.reporter.handle(hashing(link.host.name, done))

            return work(link, hashed)

        return self.pool.map(heard, self.resolved.cluster.hosts)


@contextmanager
def _look(asked: Asked) -> Iterator[Look]:
    """Make what the recipe wants exact, and hold the way to the hosts open."""
    resolved = resolve(asked)
    text = asked.output == "text"
    progress = screen(sys.stdout if text else sys.stderr)
    reporter = TextReporter(progress)
    if text:
        reporter.handle(first_line(asked, resolved))
    head = Settings(host=resolved.cluster.head)
    stocks = stocks_of(head, lambda done, size: reporter.handle(hashing(HERE, done, size)))
    with Pool(open_link, forks=asked.forks) as pool:
        try:
            yield Look(resolved=resolved, stocks=stocks, pool=pool, reporter=reporter)
        finally:
            progress.clear()


def show_verdicts(asked: Asked, *, full: bool) -> int:
    """Print what every node holds of the recipe; return 2 where something is wrong."""

    def prove(link: Link, hashed: Hashed) -> list[Verdict]:
        found: dict[Verdict, None] = {}
        for one in look.stocks:
            proven = stage.verify(link, one.manifest, _root(link), full=full, hashed=hashed)
            found |= dict.fromkeys(proven)
        return list(found)

    with _look(asked) as look:
        answers = look.ask(prove)
    verdicts = [verdict for found in answers.values.values() for verdict in found]
    if asked.output == "json":
        rows = [asdict(verdict) for verdict in verdicts]
        json.write(json.document(verdicts=rows, errors=_errors(answers)), sys.stdout)
    else:
        for verdict in verdicts:
            screen(sys.stdout).line(f"{verdict.severity}: {verdict}", MARKS[verdict.severity])
        _tell_errors(answers)
    return _exit_code(answers, verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one host has: its side of the fabric, and what it holds of each stock."""

    facts: HostFacts
    inspections: tuple[Inspection, ...]


def show_plans(asked: Asked) -> int:
    """Print what `weights.stage` would bring to each node and from where, and what is in the way.

    Asks the Hub whether it would give what it must; raises HubError, or GateError if nobody does.
    """

    def see(link: Link, hashed: Hashed) -> Seen:
        root, manifests = _root(link), [one.manifest for one in look.stocks]
        inspections = [inspect(link, one, root, record=False, hashed=hashed) for one in manifests]
        return Seen(facts=gather(cluster, link), inspections=tuple(inspections))

    with _look(asked) as look:
        cluster = look.resolved.cluster
        answers = look.ask(see)
    head = Settings(host=cluster.head)
    strategy = Strategy(head.text("weights_strategy"))
    by_host = {name: seen.inspections for name, seen in answers.values.items()}
    facts = {name: seen.facts for name, seen in answers.values.items()}
    shared: Shared = apart
    if not answers.errors and len(facts) > 1:
        shared = shared_over(links.fabric(facts, cluster.hosts), strategy)
    found = orders(look.stocks, by_host, strategy)
    _print_plans(asked, found, shared, answers)
    if asked.output == "text" and any(plan.size for plan in found[0].plans.values()):
        say(*remarks(found[0].stock.manifest, head))
    if not answers.errors:
        for one in found:
            check_supply(one, shared)
    plans = (plan for one in found for plan in one.plans.values())
    return _exit_code(answers, [verdict for plan in plans for verdict in plan.verdicts])


def _print_plans(
    asked: Asked, found: Sequence[Order], shared: Shared, answers: Answers[Seen]
) -> None:
    rows = [row for one in found for row in _rows(one, shared)]
    if asked.output == "json":
        document = json.document(plans=[asdict(row) for row in rows], errors=_errors(answers))
        json.write(document, sys.stdout)
        return
    shown = table("host", "model", "has", "lacks", "from", "in the way")
    for row in rows:
        lacks = f"{row.files} files, {show_size(row.lacks)}" if row.files else "nothing"
        shown.add_row(
            row.host, row.model, show_size(row.has), lacks, ", ".join(row.senders), row.problems
        )
    console().print(shown)
    _tell_errors(answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one host needs of one model: sizes in bytes, whole `files`, and who sends them."""

    host: str
    model: str
    commit: str | None
    has: int
    lacks: int
    files: int
    senders: tuple[str, ...]
    problems: str


def _rows(one: Order, shared: Shared) -> Iterator[Row]:
    manifest, senders = one.stock.manifest, suppliers(one, shared)
    for name, plan in one.plans.items():
        yield Row(
            host=name,
            model=manifest.name,
            commit=manifest.commit,
            has=manifest.size - plan.size,
            lacks=plan.size,
            files=len(plan.sends),
            senders=senders[name],
            problems="; ".join(str(verdict) for verdict in plan.verdicts if verdict.refuses),
        )


def _root(link: Link) -> str:
    return Settings(host=link.host).text("weights_dir")


def _exit_code(answers: Answers[T], verdicts: Sequence[Verdict]) -> int:
    refused = any(verdict.refuses for verdict in verdicts)
    return exit_code(answers.errors) or (2 if refused else 0)


def _errors(answers: Answers[T]) -> dict[str, str]:
    return {name: str(error) for name, error in answers.errors.items()}


def _tell_errors(answers: Answers[T]) -> None:
    for error in answers.errors.values():
        screen(sys.stdout).line(str(error), "red")

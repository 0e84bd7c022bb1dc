"""Where `recipes.fit` looks: a folder here, the hosts, or the Hub; nowhere unless asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkfleet.fit import speeds
from sparkfleet.fit.memory import Room
from sparkfleet.fit.need import GIB
from sparkfleet.fit.options import Start
from sparkfleet.fit.terms import PUBLISHED, Terms, latency, own
from sparkfleet.model import Cluster, Host
from sparkfleet.recipes.settings import Settings

if TYPE_CHECKING:
    from sparkfleet.cli.fits import Question
    from sparkfleet.remote.link import Link

IDLE = 118 * GIB  # available on a freshly booted Spark: free-h.idle.txt
ASSUMED = f"memory: no host was asked; an idle Spark has {IDLE / GIB:.0f} GiB of 121.6 available"
UNREAD = "the model's files were not read: --folder PATH, --staged (on the hosts) or --hub"
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of the model and its draft, the nodes, and the terms of speed; with notes."""

    answer: Answer | None
    draft: Answer | None
    rooms: tuple[Room, ...]
    terms: Terms | None
    notes: tuple[str, ...]


def look(cluster: Cluster, settings: Settings, question: Question, asked: Start) -> Seen:
    """Look where `question` says; raises InputError, HubError, and what hosts raise."""
    if question.staged:
        return _hosts(cluster, question, asked)
    answer, draft, note = _here(settings, question, asked)
    rooms = tuple(_idle(host) for host in cluster.hosts)
    return Seen(answer=answer, draft=draft, rooms=rooms, terms=None, notes=(note, ASSUMED))


def _idle(host: Host) -> Room:
    settings = Settings(host=host)
    reserve = settings.value("vllm_memory_reserve")
    kept = settings.size("vllm_memory_reserve") if reserve is not None else 0
    return Room(host=host.name, available=IDLE, kept=kept)


def _here(
    settings: Settings, question: Question, asked: Start
) -> tuple[Answer | None, Answer | None, str]:
    from sparkfleet.weights import shapes  # noqa: PLC0415 - the Hub's library, for those who ask

    model, revision = settings.text("vllm_model"), settings.text("weights_revision")
    draft = asked.speculation.model if asked.speculation else None
    if question.hub:
        answer = shapes.from_hub(model, revision)
        beside = shapes.from_hub(draft, "main") if draft and _is_hub(draft) else None
        return answer, beside, "read: the Hub"
    folder = question.folder or _source(settings)
    if folder is None:
        return None, None, UNREAD
    return shapes.from_folder(folder), None, f"read: {folder}"


def _is_hub(name: str) -> bool:
    return name.count("/") == 1 and not name.startswith(("/", "."))


def _source(settings: Settings) -> Path | None:
    """Return the recipe's local `weights_source`, where it is there."""
    text = settings.text("weights_source")
    return Path(text).expanduser() if text and Path(text).expanduser().is_dir() else None


def _hosts(cluster: Cluster, question: Question, asked: Start) -> Seen:
    """Ask every host for its memory, and the head for the model."""
    from sparkfleet.remote.open import open_link  # noqa: PLC0415 - Fabric, for those who ask hosts
    from sparkfleet.remote.pool import Pool  # noqa: PLC0415 - the same

    with Pool(open_link, forks=question.asked.forks) as pool:
        seen = pool.map(lambda link: _ask(link, cluster), cluster.hosts).all()
        head = pool.link(cluster.head)
        answer, draft = _staged(head, asked)
    rooms = tuple(found for found, *_ in seen.values() if found is not None)
    terms = _terms(*seen[cluster.head.name][1:], asked)
    unread = [f"{name}: /proc/meminfo cannot be read" for name, one in seen.items() if not one[0]]
    notes = (f"read: staged on {cluster.head.name}", *unread)
    return Seen(answer=answer, draft=draft, rooms=rooms, terms=terms, notes=notes)


def _ask(link: Link, cluster: Cluster) -> tuple[Room | None, str, str]:
    """Return a host's memory, the receipt of its links, and what `serve.bench` measured there."""
    from sparkfleet import facts  # noqa: PLC0415 - for those who ask hosts
    from sparkfleet.launch.rooms import room  # noqa: PLC0415 - the same
    from sparkfleet.launch.survey import ask_survey  # noqa: PLC0415 - the same
    from sparkfleet.links import receipt  # noqa: PLC0415 - the same

    settings = Settings(host=link.host)
    of_links = receipt.path(settings.cluster_dir, cluster.name)
    of_bench = speeds.path(settings.cluster_dir, cluster.name)
    known = facts.gather(link, files=[of_links, of_bench], fabric=False)
    found = room(known, ask_survey(link, settings, cluster.name), settings)
    return found, known.read(of_links).text, known.read(of_bench).text


def _staged(link: Link, asked: Start) -> tuple[Answer, Answer | None]:
    from sparkfleet.weights import shapes  # noqa: PLC0415 - for those who ask hosts

    settings = Settings(host=link.host)
    root, model = settings.text("weights_dir"), settings.needed("vllm_model")
    answer = shapes.staged(link, root, model, settings.text("weights_revision"))
    name = asked.speculation.model if asked.speculation else None
    return answer, shapes.staged(link, root, name, "main") if name and _is_hub(name) else None


def _terms(receipt: str, measured: str, asked: Start) -> Terms:
    """Return the published terms, moved to what `links.bench` and `serve.bench` measured here."""
    terms, reduce = PUBLISHED, latency(receipt, asked.nodes)
    if reduce is not None:
        source = f"{terms.source}, all-reduce of links.bench"
        terms = replace(terms, reduce=reduce, source=source)
    samples = [one.sample for one in speeds.read(measured)]
    return own(samples, terms) if samples else terms

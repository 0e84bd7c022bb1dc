"""All hosts at once: a bounded number of threads, each owning one link."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from sparkfleet.errors import SparkfleetError

if TYPE_CHECKING:
    from sparkfleet.model import Host
    from sparkfleet.remote.link import Link

T = TypeVar("T")
DEFAULT_FORKS = 32
ABORT_TIMEOUT = 20.0  # s; longer than a connection attempt takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Generic[T]):
    """What each host answered, and the error of each host that did not; keyed by host name."""

    values: Mapping[str, T]
    errors: Mapping[str, SparkfleetError]

    def all(self) -> Mapping[str, T]:
        """Return every host's answer; raise the first error, with those of further hosts in it."""
        if self.errors:
            first, *others = self.errors.values()
            first.others = tuple(others)
            raise first
        return self.values


class Pool:
    """Links to hosts, opened when first needed and kept for the whole run."""

    def __init__(self, open_link: Callable[[Host], Link], *, forks: int = DEFAULT_FORKS) -> None:
        self._open_link = open_link
        self._threads = ThreadPoolExecutor(forks, thread_name_prefix="host")
        self._links: dict[str, Link] = {}
        self._busy: set[Future[Any]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def link(self, host: Host) -> Link:
        """Return the link to `host`, opening it the first time; raises UnreachableError."""
        if host.name not in self._links:
            self._links[host.name] = self._open_link(host)
        return self._links[host.name]

    def map(self, work: Callable[[Link], T], hosts: Iterable[Host]) -> Answers[T]:
        """Do `work` on all `hosts` at once and wait for all of them."""
        futures: dict[str, Future[T]] = {
            host.name: self._threads.submit(self._on, host, work) for host in hosts
        }
        self._busy = set(futures.values())
        values: dict[str, T] = {}
        errors: dict[str, SparkfleetError] = {}
        for name, future in futures.items():
            try:
                values[name] = future.result()
            except SparkfleetError as error:
                errors[name] = error
        return Answers(values=values, errors=errors)

    def _on(self, host: Host, work: Callable[[Link], T]) -> T:
        return work(self.link(host))

    def abort(self) -> None:
        """Drop every running command, and wait until no thread uses a link any more."""
        links = tuple(self._links.values())
        for link in links:
            link.abort()
        wait(self._busy, timeout=ABORT_TIMEOUT)
        for link in links:
            link.resume()

    def close(self) -> None:
        """Close every link; commands that still run see their input end."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for link in self._links.values():
            link.close()
        self._links.clear()

"""All hosts at once: a bounded number of threads, each of which owns one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from sparkfleet.errors import SparkfleetError
from sparkfleet.remote.connection import REPEATS

if TYPE_CHECKING:
    from sparkfleet.model import Host
    from sparkfleet.remote.connection import Connection

T = TypeVar("T")
DEFAULT_FORKS = 32
ABORT_TIMEOUT = 20.0  # seconds; longer than a connection attempt takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Generic[T]):
    """The answer of each host, or the error of one that failed, by host name."""

    values: Mapping[str, T]
    errors: Mapping[str, SparkfleetError]

    def all(self) -> Mapping[str, T]:
        """Return every host's answer; raise the first error, with those of further hosts in it."""
        if self.errors:
            first, *rest = self.errors.values()
            first.others = tuple(rest)
            raise first
        return self.values


def _say_nothing(_host: Host) -> AbstractContextManager[None]:
    return nullcontext()


class ConnectionPool:
    """Connections to hosts, opened when first needed and kept for the whole run."""

    def __init__(
        self, open_connection: Callable[[Host], Connection], *, forks: int = DEFAULT_FORKS
    ) -> None:
        self._open_connection = open_connection
        self._threads = ThreadPoolExecutor(forks, thread_name_prefix="host")
        self._connections: dict[str, Connection] = {}
        self._busy: set[Future[Any]] = set()
        self.on_connect: Callable[[Host], AbstractContextManager[None]] = _say_nothing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, host: Host) -> Connection:
        """Return the connection to `host`, opening it the first time; raises UnreachableError.

        It is opened in the context that `on_connect` returns for the host.
        """
        if host.name not in self._connections:
            with self.on_connect(host):
                self._connections[host.name] = self._open_connection(host)
        return self._connections[host.name]

    def map(
        self,
        work: Callable[[Connection], T],
        hosts: Iterable[Host],
        *,
        repeatable: bool = False,
    ) -> Answers[T]:
        """Do `work` on all `hosts` at once and wait for all of them.

        A connection that broke before is opened again. `repeatable` work changes nothing on a host:
        where its connection breaks, it is done again over a new one.
        """
        futures: dict[str, Future[T]] = {
            host.name: self._threads.submit(self._on, host, work, REPEATS if repeatable else 0)
            for host in hosts
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

    def _on(self, host: Host, work: Callable[[Connection], T], repeats: int) -> T:
        connection = self.connect(host)
        if connection.is_lost():
            connection.reconnect()
        return connection.repeat_after_loss(lambda: work(connection), times=repeats)

    def reconnect_lost(self, hosts: Iterable[Host]) -> Answers[None]:
        """Open the broken connections to `hosts` again; the others are in no answer."""
        opened = self._connections
        broken = [host for host in hosts if host.name in opened and opened[host.name].is_lost()]
        return self.map(lambda _: None, broken)

    def reopen_lost(self, hosts: Iterable[Host]) -> bool:
        """Open the broken connections to `hosts` again and return whether there were any.

        Raises the error of the first host that cannot be reached again.
        """
        return bool(self.reconnect_lost(hosts).all())

    def abort(self) -> None:
        """Drop every running command, and wait until no thread uses a connection."""
        connections = tuple(self._connections.values())
        for connection in connections:
            connection.abort()
        wait(self._busy, timeout=ABORT_TIMEOUT)
        for connection in connections:
            connection.resume()

    def close(self) -> None:
        """Close every connection; commands that still run see their input end."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

"""Input of the static checks: the fabric, the facts and the inventory of all hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from sparkfleet.facts import HostFacts
from sparkfleet.links.model import Cage, Fabric, Rail
from sparkfleet.links.nccl_environment import compute_rank_env
from sparkfleet.model import EMPTY, Host, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The arguments of every check.

    `environments` are the variables of the ranks, by host, where a deployment has been rendered.
    """

    fabric: Fabric
    facts: Mapping[str, HostFacts]
    hosts: Mapping[str, Host]
    environments: Mapping[str, Mapping[str, str | None]] = field(default_factory=lambda: EMPTY)

    def rails(self) -> Iterator[Rail]:
        """Yield the rails in use of all hosts."""
        for host in self.hosts:
            yield from self.fabric.rails[host]

    def every_rail(self, host: str) -> tuple[Rail, ...]:
        """Return the QSFP rails of a host, in use or not."""
        return (*self.fabric.rails[host], *self.fabric.spare[host])

    def named_interfaces(self, host: str) -> tuple[str, ...]:
        """Return the interfaces that the inventory names as fabric of `host`."""
        return tuple(map(str, self.hosts[host].get("link_interfaces") or ()))

    def twins(self, host: str) -> Iterator[Rail]:
        """Yield the rails that share a cage with one in use and are not in use.

        None where the inventory names the interfaces or their number: then it is intended.
        """
        ports = {rail.port for rail in self.fabric.rails[host] if rail.port is not None}
        if not self.named_interfaces(host) and self.hosts[host].get("link_rails") is None:
            yield from (rail for rail in self.fabric.spare[host] if rail.port in ports)

    def whole_cages(self, host: str) -> Iterator[Cage]:
        """Yield the cages of `host` that are in use, with all their rails, in use or not."""
        for port in dict.fromkeys(rail.port for rail in self.fabric.rails[host]):
            if port is not None and not self.named_interfaces(host):
                rails = tuple(rail for rail in self.every_rail(host) if rail.port == port)
                yield Cage(host=host, port=port, rails=rails)

    def environment(self, host: str) -> Mapping[str, str | None]:
        """Return the variables of the rank on `host`, `vllm_env` included; None means unset."""
        if host in self.environments:
            return self.environments[host]
        given = self.hosts[host].get("vllm_env") or {}
        over = {name: None if data is None else str(data) for name, data in given.items()}
        return {
            var.name: var.value for var in compute_rank_env(self.fabric, self.hosts[host])
        } | over


Check = Callable[[Evidence], Iterator[Verdict]]

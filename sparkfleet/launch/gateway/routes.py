"""Routes of the gateway: the clusters that serve each model; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sparkfleet.errors import InventoryError
from sparkfleet.inventory.gateway import Gateway
from sparkfleet.spelling import did_you_mean
from sparkfleet.variables.gateway import MODEL_NAME, MODEL_RULE


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCluster:
    """A cluster as the gateway sees it.

    `name` is what it serves, `names` what it answers to besides: the aliases that it was started
    with, or would be. `address` and `port` are where the gateway's host reaches it, "" for a
    cluster that was not started. `key` is what its vLLM asks for, "" for none.
    """

    cluster: str
    name: str
    names: tuple[str, ...] = ()
    address: str = ""
    port: int = 0
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """One model: its names, the backend of HAProxy, and the clusters that serve or declare it."""

    names: tuple[str, ...]
    backend: str
    clusters: tuple[ServedCluster, ...]

    @property
    def servers(self) -> tuple[ServedCluster, ...]:
        """The clusters that were started: copies of the model, where there are several."""
        return tuple(each for each in self.clusters if each.address)

    @property
    def key(self) -> str:
        """The key of its servers, "" where they ask for none."""
        return next((each.key for each in self.clusters if each.key), "")


def build_routes(gateway: Gateway, clusters: Sequence[ServedCluster]) -> tuple[ModelRoute, ...]:
    """Return one route for each model, in the order of the inventory.

    Raises InventoryError for an alias of a model that no cluster has, for a name that HAProxy could
    not route, and for copies of a model that ask for different keys.
    """
    by_name: dict[str, list[ServedCluster]] = {}
    for each in clusters:
        if not MODEL_NAME.fullmatch(each.name):
            raise InventoryError(
                f"gateway: the model of cluster {each.cluster} is called {each.name!r}, which "
                "cannot be routed",
                hint=f"set vllm_served_name: {MODEL_RULE}",
            )
        if not (each.key.isascii() and each.key.isprintable()):
            raise InventoryError(
                f"gateway: VLLM_API_KEY of cluster {each.cluster} cannot be sent in a header",
                hint="use printable ASCII characters in one line",
            )
        by_name.setdefault(each.name, []).append(each)
    _check_aliases(gateway, by_name)
    taken: set[str] = set()
    return tuple(_build_route(name, copies, taken) for name, copies in by_name.items())


def _build_route(name: str, copies: Sequence[ServedCluster], taken: set[str]) -> ModelRoute:
    keys = {each.key for each in copies}
    if len(keys) > 1:
        both = " and ".join(each.cluster for each in copies)
        raise InventoryError(
            f"gateway: {both} serve {name}, and require different API keys",
            hint="give them the same VLLM_API_KEY in vllm_env, or none",
        )
    started = [each for each in copies if each.address]
    aliases = set.intersection(*(set(each.names) for each in started or copies))
    aliases = {alias for alias in aliases if MODEL_NAME.fullmatch(alias)}  # a host can say any
    backend = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    while backend in taken:
        backend += "_"
    taken.add(backend)
    return ModelRoute(names=(name, *sorted(aliases)), backend=backend, clusters=tuple(copies))


def _check_aliases(gateway: Gateway, names: Mapping[str, object]) -> None:
    for alias, name in gateway.settings.aliases.items():
        where = gateway.locate("aliases")
        if name not in names:
            hint = did_you_mean(name, names) or f"models: {', '.join(names) or 'none'}"
            raise InventoryError(
                f"gateway: aliases: {alias}: no cluster serves {name!r}", where=where, hint=hint
            )
        if alias in names:
            raise InventoryError(
                f"gateway: aliases: {alias} is already the name of a served model",
                where=where,
                hint="give the alias another name, or remove it",
            )


def find_missing_aliases(gateway: Gateway, routes: Sequence[ModelRoute]) -> Iterator[str]:
    """Yield what was started before it got an alias: vLLM answers only to names it was given."""
    for route in routes:
        wanted = {alias for alias, name in gateway.settings.aliases.items() if name in route.names}
        for each in route.servers:
            if missing := sorted(wanted - set(each.names)):
                yield f"{each.cluster} was started without the alias {', '.join(missing)}"

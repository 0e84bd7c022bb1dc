"""All tasks as one invoke namespace; names are the same for `invoke` and for `sparkfleet`."""

from __future__ import annotations

from types import ModuleType

from invoke.collection import Collection
from invoke.tasks import Task

from sparkfleet.cli import (
    cluster,
    deployments,
    hosts,
    inventory,
    lab,
    links,
    playbook,
    recipes,
    serve,
    weights,
)
from sparkfleet.cli.doctor import doctor


def _collection(name: str, *modules: ModuleType) -> Collection:
    collection = Collection(name)
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, Task):
                collection.add_task(value)
    return collection


namespace = Collection(
    doctor,
    _collection("cluster", cluster, deployments),
    _collection("hosts", hosts),
    _collection("inventory", inventory),
    _collection("lab", lab),
    _collection("links", links),
    _collection("playbook", playbook),
    _collection("recipes", recipes),
    _collection("serve", serve),
    _collection("weights", weights),
)

"""All tasks as one invoke namespace; names are the same for `invoke` and for `sparkfleet`."""

from __future__ import annotations

from types import ModuleType

from invoke.collection import Collection
from invoke.tasks import Task

from sparkfleet.cli import lab_tasks
from sparkfleet.cli.cluster import tasks as cluster_tasks
from sparkfleet.cli.docs.tasks import docs
from sparkfleet.cli.doctor.tasks import doctor
from sparkfleet.cli.gateway import tasks as gateway_tasks
from sparkfleet.cli.hosts import tasks as hosts_tasks
from sparkfleet.cli.init.tasks import init
from sparkfleet.cli.inventory import tasks as inventory_tasks
from sparkfleet.cli.links import tasks as links_tasks
from sparkfleet.cli.playbook import tasks as playbook_tasks
from sparkfleet.cli.recipes import tasks as recipes_tasks
from sparkfleet.cli.serve import tasks as serve_tasks
from sparkfleet.cli.weights import tasks as weights_tasks


def _build_collection(name: str, module: ModuleType) -> Collection:
    collection = Collection(name)
    for value in vars(module).values():
        if isinstance(value, Task):
            collection.add_task(value)
    return collection


namespace = Collection(
    docs,
    doctor,
    init,
    _build_collection("cluster", cluster_tasks),
    _build_collection("gateway", gateway_tasks),
    _build_collection("hosts", hosts_tasks),
    _build_collection("inventory", inventory_tasks),
    _build_collection("lab", lab_tasks),
    _build_collection("links", links_tasks),
    _build_collection("playbook", playbook_tasks),
    _build_collection("recipes", recipes_tasks),
    _build_collection("serve", serve_tasks),
    _build_collection("weights", weights_tasks),
)

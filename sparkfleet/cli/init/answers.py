"""The answers that `init` needs: from the options, and on a terminal from questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkfleet.cli import prompt
from sparkfleet.cli.init.discovery import find_announced
from sparkfleet.cli.init.options import LOCAL, InitOptions, Machine, parse_machine
from sparkfleet.cli.views.recipe import format_checkpoint_size
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.command_name import name_command
from sparkfleet.errors import RecipeError, UsageError
from sparkfleet.fit.memory import IDLE
from sparkfleet.model import Host, Value
from sparkfleet.recipes.recipe import FIRST_TRY, FOLDER, Recipe, load_recipe
from sparkfleet.recipes.without_recipe import UTILIZATION
from sparkfleet.resources import list_data_files

SHOWN = 12  # recipes, the newest first
LAB = "lab-tiny"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectAnswers:
    """The Sparks in the order of their ranks, and the recipe to serve."""

    hosts: tuple[Host, ...]
    recipe: str


def collect_answers(options: InitOptions, *, asks: bool) -> ProjectAnswers:
    """Return the answers; raises UsageError for one that is missing, and RecipeError."""
    if options.discover:
        announced = find_announced()
        print_lines("announced over mDNS:" if announced else "no machine announces SSH over mDNS")
        print_lines(*(f"  {machine}" for machine in announced))
    machines = options.host or (_ask_machines() if asks else ())
    if not machines:
        why = "" if asks or options.yes else ", and there is no terminal to ask on"
        raise UsageError(
            f"no Spark was named{why}",
            hint=f"type: {name_command('init')} --host USER@ADDRESS",
        )
    hosts = build_hosts(machines)
    recipe = options.recipe or (_ask_recipe(len(hosts)) if asks else FIRST_TRY)
    load_recipe(recipe)
    return ProjectAnswers(hosts=hosts, recipe=recipe)


def build_hosts(machines: Sequence[Machine]) -> tuple[Host, ...]:
    """Return the hosts of machines; raises UsageError for one that is named twice."""
    hosts: dict[str, Host] = {}
    for number, machine in enumerate(machines, start=1):
        name = machine.name or f"spark{number}"
        if name in hosts:
            raise UsageError(f"two Sparks have the name {name}", hint="type: NAME=USER@ADDRESS")
        hosts[name] = Host(name=name, groups=("sparks",), vars=_build_variables(machine))
    addresses = [(host.address, host.get("ansible_port")) for host in hosts.values()]
    for address, port in addresses:
        if addresses.count((address, port)) > 1:
            raise UsageError(f"two Sparks have the address {address}", hint="leave one out")
    return tuple(hosts.values())


def _build_variables(machine: Machine) -> dict[str, Value]:
    if machine.address == LOCAL:
        values: dict[str, object] = {"ansible_connection": LOCAL}
    else:
        values = {
            "ansible_host": machine.address,
            "ansible_user": machine.user or None,
            "ansible_port": machine.port,
        }
    return {name: Value(data=data) for name, data in values.items() if data is not None}


def _ask_machines() -> tuple[Machine, ...]:
    print_lines("Which Sparks? An address or USER@ADDRESS; `local` is this machine.")
    machines: list[Machine] = []
    while True:
        which = "another Spark (empty: no more)" if machines else "first Spark, the head"
        text = prompt.ask(which)
        if not text:
            return tuple(machines)
        try:
            machines.append(parse_machine(text))
        except UsageError as error:
            print_lines(str(error))


def _ask_recipe(nodes: int) -> str:
    """Return the recipe that is chosen, a name or ``ORG/MODEL``."""
    print_lines(f"Which model? These fit on {nodes if nodes > 1 else 'one'}:", *_list_rows(nodes))
    while True:
        name = prompt.ask("recipe, or ORG/MODEL", default=FIRST_TRY)
        try:
            load_recipe(name)
        except RecipeError as error:
            print_lines(str(error))
        else:
            return name


def _list_rows(nodes: int) -> Iterator[str]:
    names = (name for name in list_data_files(FOLDER, ".yml") if name != LAB)
    fitting = [recipe for recipe in map(load_recipe, names) if fits_by_size(recipe, nodes)]
    newest = sorted(fitting, key=lambda recipe: recipe.date, reverse=True)
    for recipe in newest[:SHOWN]:
        yield f"  {recipe.name:<36} {format_checkpoint_size(recipe):>8}"
    if len(newest) > SHOWN:
        yield f"  and {len(newest) - SHOWN} more: {name_command('recipes.list')}"


def fits_by_size(recipe: Recipe, nodes: int) -> bool:
    """Return whether the weights that a recipe names fit in the memory of that many Sparks."""
    size = recipe.checkpoint and recipe.checkpoint.size
    least = recipe.tp_min or 1
    return bool(size) and least <= nodes and (size or 0) < IDLE * UTILIZATION * nodes

"""`recipes.show`: a recipe explained to readers new to vLLM, or as JSON."""

from __future__ import annotations

import sys

from sparkfleet import inventory as inventories
from sparkfleet.cli import defaults
from sparkfleet.cli.options import Options
from sparkfleet.cli.recipes.list import serialize_recipe
from sparkfleet.cli.recipes.options import RecipeOptions
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.recipe import explain_recipe
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.errors import InventoryError, Where
from sparkfleet.inventory.checks import check_variable
from sparkfleet.inventory.clusters import choose_cluster
from sparkfleet.model import Host, Value
from sparkfleet.recipes.explanation import Setting, list_settings
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.report.redaction import redact_assignments
from sparkfleet.variables.secret import VEIL

COMMAND_LINE = Where(file="--set")


def show_recipe(options: RecipeOptions) -> int:
    """Print what the recipe is and sets; with an inventory, what wins on its hosts."""
    recipe = load_recipe(options.recipe)
    hosts = _select_hosts(options)
    by_host = {host.name: list_settings(recipe, host) for host in hosts}
    settings = by_host[hosts[0].name] if hosts else list_settings(recipe)
    if options.json:
        host_documents = {
            name: [_serialize_setting(setting) for setting in host_settings]
            for name, host_settings in by_host.items()
        }
        setting_documents = [_serialize_setting(setting) for setting in settings]
        print_document(
            recipe=serialize_recipe(recipe), settings=setting_documents, hosts=host_documents
        )
        return 0
    out = create_screen(sys.stdout)
    for line in explain_recipe(recipe, settings, dict(list(by_host.items())[1:])):
        out.line(redact_assignments(line), "" if line.startswith(" ") else "bold")
    return 0


def _select_hosts(options: Options) -> tuple[Host, ...]:
    """Return the hosts of the cluster, the head first; a made one for --set alone; or none."""
    if options.inventory:
        inventory = inventories.load_inventory(
            defaults.find_inventory_files(options.inventory), extra_vars=options.set_variables
        )
        return choose_cluster(inventory, name=options.cluster).hosts
    values = {
        name: Value(data=data, where=COMMAND_LINE) for name, data in options.set_variables.items()
    }
    if problems := [problem for name in values for problem in check_variable(name, values[name])]:
        raise InventoryError.of(problems)
    return (Host(name="--set", vars=values),) if values else ()


def _redact(value: object) -> object:
    """Return a value without the secrets of options such as ``--env=HF_TOKEN=...``."""
    if isinstance(value, str):
        return redact_assignments(value)
    return [_redact(item) for item in value] if isinstance(value, list) else value


def _serialize_setting(setting: Setting) -> dict[str, object]:
    return {
        "variable": setting.variable,
        "key": setting.key,
        "value": VEIL if setting.is_hidden else _redact(setting.value),
        "where": str(setting.where),
        "over": [
            {"value": VEIL if setting.is_hidden else _redact(value), "where": str(where)}
            for value, where in setting.over
        ],
        "meaning": setting.meaning,
        "why": setting.why,
    }

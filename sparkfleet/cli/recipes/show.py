"""`recipes.show`: a recipe explained to readers new to vLLM, or as JSON."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath

from sparkfleet import inventory as inventories
from sparkfleet.cli import defaults
from sparkfleet.cli.options import Options
from sparkfleet.cli.recipes.list import (
    format_checkpoint_size,
    format_model,
    format_spark_count,
    serialize_recipe,
)
from sparkfleet.cli.recipes.options import RecipeOptions
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.commands import quote
from sparkfleet.door import command_name
from sparkfleet.errors import InventoryError, Where
from sparkfleet.inventory.checks import check_variable
from sparkfleet.inventory.clusters import choose_cluster
from sparkfleet.model import Host, Value
from sparkfleet.quantities import format_count
from sparkfleet.recipes.explanation import GROUPS, Setting, list_settings
from sparkfleet.recipes.metadata import Speed
from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.report.redaction import redact_assignments
from sparkfleet.resources import format_path, list_data_files
from sparkfleet.variables.secret import VEIL

Lines = Iterator[str]
WIDTH = 96
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
    for line in _format_recipe(recipe, settings, dict(list(by_host.items())[1:])):
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


def _format_recipe(
    recipe: Recipe, settings: Sequence[Setting], other_hosts: Mapping[str, Sequence[Setting]]
) -> Lines:
    yield f"{recipe.name}: {recipe.description}"
    yield from _format_about(recipe)
    yield from _format_requirements(recipe)
    for title, group in groupby(sorted(settings, key=_rank_setting), key=_find_group_title):
        yield title
        for setting in group:
            yield from _format_setting(setting, recipe)
    for host, host_settings in other_hosts.items():
        yield from _format_differences(host, settings, host_settings)
    yield from _format_bullets(
        "Published speeds", [_format_speed_row(speed) for speed in recipe.speeds]
    )
    yield from _format_bullets("In requests", recipe.request)
    yield from _format_bullets("Good to know", recipe.advice)
    yield from _format_bullets("A right start logs", recipe.log.expect)
    yield from _format_bullets("Stop if the log has", recipe.log.forbid)
    shipped = list_data_files("playbooks/recipes", ".yml").get(recipe.name)
    is_shipped = shipped is not None and shipped.resolve() == recipe.path.resolve()
    given = recipe.name if is_shipped or recipe.shelf else quote([format_path(recipe.path)])
    size_option = f"--tp {recipe.tp_min}" if recipe.tp_min else "--solo"
    yield "Whether it fits, and how fast it will be"
    yield f"  {command_name('recipes.fit')} {given}" + (f" {size_option}" if recipe.tp_min else "")
    yield "To serve it"
    yield f"  {command_name('cluster.up')} {size_option} --recipe {given}"


def _find_group_title(setting: Setting) -> str:
    return GROUPS.get(setting.variable, "Variables")


def _rank_setting(setting: Setting) -> int:
    return list(GROUPS).index(setting.variable) + 1 if setting.variable in GROUPS else 0


def _format_about(recipe: Recipe) -> Lines:
    yield from _format_field("model", format_model(recipe))
    checkpoint = recipe.checkpoint
    if checkpoint is not None:
        kind = {True: "mixture of experts", False: "dense", None: ""}[checkpoint.moe]
        count = f"{format_count(checkpoint.parameters)} parameters" if checkpoint.parameters else ""
        active = (
            f"{format_count(checkpoint.active)} of them for each token" if checkpoint.active else ""
        )
        yield from _format_field(
            "weights", ", ".join(filter(None, (kind, count, active, checkpoint.format)))
        )
    yield from _format_field("on disk", format_checkpoint_size(recipe))
    yield from _format_field("licence", recipe.licence or "not said by the source")
    yield from _format_field("source", recipe.source)
    files = [format_path(recipe.path), *(f"extends {name}" for name in recipe.extends)]
    if not recipe.written:
        files = [f"none; to write one: {command_name('recipes.new')} {recipe.name}"]
    yield from _format_field("file", ", ".join(files))
    yield from _format_field("shelf", recipe.shelf)


def _format_requirements(recipe: Recipe) -> Lines:
    yield "It needs"
    yield from _format_field("Sparks", format_spark_count(recipe))
    for name, constraint in recipe.requires.items():
        yield from _format_field(name, str(constraint))
    if recipe.gated:
        yield from _format_field(
            "access", "gated: accept its licence on the Hub, then export HF_TOKEN=hf_..."
        )
    elif recipe.gated is None:
        yield from _format_field("access", "the source does not say whether the model is gated")


def _format_setting(setting: Setting, recipe: Recipe) -> Lines:
    yield f"  {setting.name}: {setting.text}"
    for text in filter(None, (setting.meaning, setting.why and f"why: {setting.why}")):
        yield from textwrap.wrap(text, WIDTH, initial_indent="      ", subsequent_indent="      ")
    yield f"      set at {_format_place(setting.where, recipe)}"
    for value, where in setting.over:
        shown = VEIL if setting.is_hidden else value
        yield f"      instead of {shown} at {_format_place(where, recipe)}"


def _format_place(where: Where | None, recipe: Recipe) -> str:
    """Return a place; of the recipe and those that it extends, whose files are named, its line."""
    if where is None or not where.line:
        return str(where)
    if where.file == format_path(recipe.path):
        return f"line {where.line}"
    name = PurePath(where.file).stem
    return f"line {where.line} of {name}" if name in recipe.extends else str(where)


def _format_differences(host: str, first: Sequence[Setting], settings: Sequence[Setting]) -> Lines:
    first_texts = {(entry.variable, entry.key): entry.text for entry in first}
    differing = [
        entry for entry in settings if first_texts.get((entry.variable, entry.key)) != entry.text
    ]
    if differing:
        yield f"On {host}"
    for setting in differing:
        yield f"  {setting.name}: {setting.text} (set at {setting.where})"


def _format_speed_row(speed: Speed) -> str:
    parts = [f"{speed.nodes} Spark{'s' if speed.nodes > 1 else ''}"]
    parts += [f"{speed.decode:g} tok/s"] if speed.decode else []
    parts += [f"reads {speed.prefill:g} tok/s"] if speed.prefill else []
    parts += [f"first token after {speed.ttft:g} s"] if speed.ttft else []
    parts += [f"{speed.requests} requests together"] if speed.requests > 1 else []
    parts += [f"{speed.context} tokens before"] if speed.context else []
    note = f"; {speed.note}" if speed.note else ""
    return f"{', '.join(parts)} ({speed.source}, {speed.date}{note})"


def _format_bullets(title: str, texts: Sequence[str]) -> Lines:
    if texts:
        yield title
    for text in texts:
        yield from textwrap.wrap(text, WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _format_field(name: str, text: str) -> Lines:
    if text:
        yield f"  {name:<12} {text}"


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

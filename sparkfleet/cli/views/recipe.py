"""A recipe as text: short cells for tables, and the whole of it explained."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath

from sparkfleet.command_name import name_command
from sparkfleet.commands import quote
from sparkfleet.errors import Where
from sparkfleet.quantities import format_count, format_size
from sparkfleet.recipes.explanation import GROUPS, Setting
from sparkfleet.recipes.metadata import Speed
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.report.plurals import format_plural
from sparkfleet.resources import format_path, list_data_files, resolve_path
from sparkfleet.variables.secret import VEIL

Lines = Iterator[str]
WIDTH = 96


def explain_recipe(
    recipe: Recipe, settings: Sequence[Setting], other_hosts: Mapping[str, Sequence[Setting]]
) -> Lines:
    """Yield the lines that explain a recipe: its model, needs, settings, speeds, and what to type.

    `other_hosts` are the settings of further hosts, of which only those that differ are shown.
    """
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
    yield from _format_bullets("A successful start logs", recipe.log.expect)
    yield from _format_bullets("Stop if the log has", recipe.log.forbid)
    shipped = list_data_files("playbooks/recipes", ".yml").get(recipe.name)
    is_shipped = shipped is not None and resolve_path(shipped) == resolve_path(recipe.path)
    given = recipe.name if is_shipped or recipe.shelf else quote([format_path(recipe.path)])
    size_option = f"--tp {recipe.tp_min}" if recipe.tp_min else "--solo"
    yield "Whether it fits, and how fast it will be"
    yield f"  {name_command('recipes.fit')} {given}" + (f" {size_option}" if recipe.tp_min else "")
    yield "To serve it"
    yield f"  {name_command('cluster.up')} {size_option} --recipe {given}"


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
    yield from _format_field("licence", recipe.licence or "not stated by the source")
    yield from _format_field("source", recipe.source)
    files = [format_path(recipe.path), *(f"extends {name}" for name in recipe.extends)]
    if not recipe.written:
        files = [f"none; to write one: {name_command('recipes.new')} {recipe.name}"]
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
    parts = [format_plural(speed.nodes, "Spark")]
    parts += [f"{speed.decode:g} tok/s"] if speed.decode else []
    parts += [f"reads {speed.prefill:g} tok/s"] if speed.prefill else []
    parts += [f"first token after {speed.ttft:g} s"] if speed.ttft else []
    parts += [f"{speed.requests} concurrent requests"] if speed.requests > 1 else []
    parts += [f"{speed.context} tokens of context"] if speed.context else []
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


def format_model(recipe: Recipe) -> str:
    """Return the model that the recipe serves."""
    return str(recipe.vars["vllm_model"].data) if "vllm_model" in recipe.vars else "-"


def format_spark_count(recipe: Recipe) -> str:
    """Return how many Sparks it is for, as ``1``, ``1+``, ``2-4``."""
    least = recipe.tp_min or 1
    if recipe.tp_max is None:
        return f"{least}+"
    return str(least) if least == recipe.tp_max else f"{least}-{recipe.tp_max}"


def format_checkpoint_size(recipe: Recipe) -> str:
    """Return the size of the weights on disk, "-" where no source has it."""
    size = recipe.checkpoint and recipe.checkpoint.size
    return format_size(size) if size else "-"


def format_best_speed(recipe: Recipe) -> str:
    """Return the best published decode speed of one request, "-" where no source has one."""
    best = recipe.fastest
    if best is None:
        return "-"
    return f"{best.decode:g} tok/s" + (f" on {best.nodes}" if best.nodes > 1 else "")

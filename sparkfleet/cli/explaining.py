"""`recipes.show`: a recipe for somebody who never saw vLLM, or as JSON."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from sparkfleet import inventory as inventories
from sparkfleet.cli import sources
from sparkfleet.cli.asked import Asked
from sparkfleet.cli.catalogue import model, size, sparks, told
from sparkfleet.cli.screen import screen
from sparkfleet.errors import InventoryError, Where
from sparkfleet.inventory.checks import check_variable
from sparkfleet.inventory.clusters import cluster
from sparkfleet.model import Host, Value
from sparkfleet.quantities import show_count
from sparkfleet.recipes.about import Speed
from sparkfleet.recipes.explanation import GROUPS, Setting, settings_of
from sparkfleet.recipes.recipe import Recipe, load
from sparkfleet.report import json
from sparkfleet.resources import shown
from sparkfleet.variables.secret import VEIL

Lines = Iterator[str]
WIDTH = 96
COMMAND_LINE = Where(file="--set")


def show_recipe(asked: Asked) -> int:
    """Print what the recipe is and sets; with an inventory, what wins on its hosts."""
    recipe = load(asked.recipe or "")
    hosts = _hosts(asked)
    found = {host.name: settings_of(recipe, host) for host in hosts}
    settings = found[hosts[0].name] if hosts else settings_of(recipe)
    if asked.output == "json":
        told_hosts = {name: [_data(one) for one in own] for name, own in found.items()}
        told_settings = [_data(one) for one in settings]
        json.write(
            json.document(recipe=told(recipe), settings=told_settings, hosts=told_hosts), sys.stdout
        )
        return 0
    out = screen(sys.stdout)
    for line in _lines(recipe, settings, dict(list(found.items())[1:])):
        out.line(line, "" if line.startswith(" ") else "bold")
    return 0


def _hosts(asked: Asked) -> tuple[Host, ...]:
    """Return the hosts of the cluster, the head first; a made one for --set alone; or none."""
    if asked.inventory:
        found = inventories.load(sources.inventories(asked.inventory), extra_vars=asked.given)
        return cluster(found, name=asked.cluster).hosts
    values = {name: Value(data=data, where=COMMAND_LINE) for name, data in asked.given.items()}
    if problems := [one for name in values for one in check_variable(name, values[name])]:
        raise InventoryError.of(problems)
    return (Host(name="--set", vars=values),) if values else ()


def _lines(
    recipe: Recipe, settings: Sequence[Setting], others: Mapping[str, Sequence[Setting]]
) -> Lines:
    yield f"{recipe.name}: {recipe.description}"
    yield from _about(recipe)
    yield from _needs(recipe)
    for title, group in groupby(sorted(settings, key=_rank), key=_title):
        yield title
        for setting in group:
            yield from _setting(setting)
    for host, own in others.items():
        yield from _differences(host, settings, own)
    yield from _bullets("Published speeds", [_speed(one) for one in recipe.speeds])
    yield from _bullets("In requests", recipe.request)
    yield from _bullets("Good to know", recipe.advice)
    yield from _bullets("A right start logs", recipe.log.expect)
    yield from _bullets("Stop if the log has", recipe.log.forbid)
    size_option = f"--tp {recipe.tp_min}" if recipe.tp_min else "--solo"
    yield "Whether it fits, and how fast it will be"
    yield f"  invoke recipes.fit {recipe.name}" + (f" {size_option}" if recipe.tp_min else "")
    yield "To serve it"
    yield f"  invoke cluster.up {size_option} --recipe {recipe.name}"


def _title(setting: Setting) -> str:
    return GROUPS.get(setting.variable, "Variables")


def _rank(setting: Setting) -> int:
    return list(GROUPS).index(setting.variable) + 1 if setting.variable in GROUPS else 0


def _about(recipe: Recipe) -> Lines:
    yield from _row("model", model(recipe))
    made = recipe.checkpoint
    if made is not None:
        kind = {True: "mixture of experts", False: "dense", None: ""}[made.moe]
        count = f"{show_count(made.parameters)} parameters" if made.parameters else ""
        active = f"{show_count(made.active)} of them for each token" if made.active else ""
        yield from _row("weights", ", ".join(filter(None, (kind, count, active, made.format))))
    yield from _row("on disk", size(recipe))
    yield from _row("licence", recipe.licence or "not said by the source")
    yield from _row("source", recipe.source)
    files = [shown(recipe.path), *(f"extends {name}" for name in recipe.extends)]
    yield from _row("file", ", ".join(files))


def _needs(recipe: Recipe) -> Lines:
    yield "It needs"
    yield from _row("Sparks", sparks(recipe))
    for name, wanted in recipe.requires.items():
        yield from _row(name, str(wanted))
    if recipe.gated:
        yield from _row(
            "access", "gated: accept its licence on the Hub, then export HF_TOKEN=hf_..."
        )
    elif recipe.gated is None:
        yield from _row("access", "the source does not say whether the model is gated")


def _setting(setting: Setting) -> Lines:
    yield f"  {setting.name}: {setting.text}"
    for text in filter(None, (setting.meaning, setting.why and f"why: {setting.why}")):
        yield from textwrap.wrap(text, WIDTH, initial_indent="      ", subsequent_indent="      ")
    yield f"      set at {setting.where}"
    for value, where in setting.over:
        yield f"      instead of {VEIL if setting.is_hidden else value} at {where}"


def _differences(host: str, first: Sequence[Setting], own: Sequence[Setting]) -> Lines:
    known = {(one.variable, one.key): one.text for one in first}
    other = [one for one in own if known.get((one.variable, one.key)) != one.text]
    if other:
        yield f"On {host}"
    for setting in other:
        yield f"  {setting.name}: {setting.text} (set at {setting.where})"


def _speed(speed: Speed) -> str:
    parts = [f"{speed.nodes} Spark{'s' if speed.nodes > 1 else ''}"]
    parts += [f"{speed.decode:g} tok/s"] if speed.decode else []
    parts += [f"reads {speed.prefill:g} tok/s"] if speed.prefill else []
    parts += [f"first token after {speed.ttft:g} s"] if speed.ttft else []
    parts += [f"{speed.requests} requests together"] if speed.requests > 1 else []
    parts += [f"{speed.context} tokens before"] if speed.context else []
    note = f"; {speed.note}" if speed.note else ""
    return f"{', '.join(parts)} ({speed.source}, {speed.date}{note})"


def _bullets(title: str, texts: Sequence[str]) -> Lines:
    if texts:
        yield title
    for text in texts:
        yield from textwrap.wrap(text, WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _row(name: str, text: str) -> Lines:
    if text:
        yield f"  {name:<12} {text}"


def _data(setting: Setting) -> dict[str, object]:
    return {
        "variable": setting.variable,
        "key": setting.key,
        "value": VEIL if setting.is_hidden else setting.value,
        "where": str(setting.where),
        "over": [
            {"value": VEIL if setting.is_hidden else value, "where": str(where)}
            for value, where in setting.over
        ],
        "meaning": setting.meaning,
        "why": setting.why,
    }

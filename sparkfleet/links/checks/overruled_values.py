"""Values of the inventory that have no effect, because another one overrules them; pure.

The verdicts name both places and no value: an environment may hold secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkfleet.links.checks.variable_places import MAPPINGS, SHORT_NAMES
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.model import Host, Value, Verdict
from sparkfleet.verdicts import warning


def check_overruled_values(evidence: Evidence) -> Iterator[Verdict]:
    """Warn of a value that another variable overrules, and of keys that a mapping replaces."""
    for host in evidence.hosts.values():
        for name, variable in SHORT_NAMES.items():
            if host.get(variable) is not None:
                yield from _compare_places(host, variable, name, MAPPINGS)
        for at, variable in enumerate(MAPPINGS):
            for name in _read_mapping(host.vars.get(variable)):
                yield from _compare_places(host, variable, name, MAPPINGS[:at])
        for variable in reversed(MAPPINGS):
            yield from _find_dropped_keys(host, variable)


def _compare_places(
    host: Host, variable: str, name: str, stronger: tuple[str, ...]
) -> Iterator[Verdict]:
    """Yield a warning where one of the `stronger` mappings has another value for `name`."""
    data = host.get(variable)[name] if variable in MAPPINGS else host.get(variable)
    winner = next((mapping for mapping in stronger if name in (host.get(mapping) or {})), None)
    if winner is None or str(host.get(winner)[name]) == str(data):
        return
    subject = f"{variable}: {name}" if variable in MAPPINGS else variable
    yield warning(
        "env.overruled",
        host.name,
        subject,
        expected=f"the value at {_locate(host, variable, name)}",
        seen=f"another value: {winner} at {_locate(host, winner, name)} sets {name}",
        source=f"{variable}, {winner}",
        fix=f"remove one of the two: {winner} wins over {variable}",
    )


def _find_dropped_keys(host: Host, variable: str) -> Iterator[Verdict]:
    """Yield a warning for each key of a weaker mapping that a stronger one replaced whole."""
    value = host.vars.get(variable)
    kept = _read_mapping(value)
    dropped: dict[str, Value] = {}
    for layer in value.shadowed if value else ():
        for name in _read_mapping(layer).keys() - kept.keys():
            dropped.setdefault(name, layer)
    for name, layer in sorted(dropped.items()):
        yield warning(
            "env.overruled",
            host.name,
            f"{variable}: {name}",
            expected=f"the value at {layer.entries.get(name) or layer.where or variable}",
            seen=f"no value: {variable} at {_locate(host, variable, '')} "
            "replaces the whole mapping",
            source=variable,
            fix=f"repeat {name} in the {variable} that wins, or remove it from the other one",
        )


def _read_mapping(value: Value | None) -> Mapping[str, Any]:
    return value.data if value is not None and isinstance(value.data, Mapping) else {}


def _locate(host: Host, variable: str, name: str) -> str:
    value = host.vars[variable]
    return str(value.entries.get(name) or value.where or variable)


CHECKS: tuple[Check, ...] = (check_overruled_values,)

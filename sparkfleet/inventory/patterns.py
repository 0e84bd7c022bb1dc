"""Host patterns: ``a:b``, ``a,!b``, ``a:&b``, globs, ``~regex``, ``group[0]``, ``group[1:3]``."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from sparkfleet.errors import InventoryError
from sparkfleet.expressions import compiled
from sparkfleet.inventory.membership import hosts_of_group
from sparkfleet.inventory.ranges import is_address
from sparkfleet.model import Host, Inventory, Value
from sparkfleet.spelling import did_you_mean

SUBSCRIPT = r"(.+)\[(?:(-?[0-9]+)|([0-9]+)[:-]([0-9]*))\]"
TERM = r"(?:[^\s:\[\]]|\[[^\]]*\])+"
WITH_PORT = r"[^:\[\]]+:[0-9]+"
WILD = frozenset(".?*[")
LOCAL = ("localhost", "127.0.0.1", "::1")


def select(inventory: Inventory, pattern: str) -> tuple[Host, ...]:
    """Return the hosts that `pattern` stands for, in Ansible's order, each of them once.

    Raises InventoryError for a term that matches nothing, and where nothing is left.
    """
    names: dict[str, None] = {}
    terms = _terms(pattern)
    wanted = [term for term in terms if term[0] not in "&!"] or ["all"]
    for term in wanted:
        names.update(dict.fromkeys(_matches(inventory, term)))
    for term in terms:
        if term[0] in "&!":
            matched = set(_matches(inventory, term[1:]))
            names = {name: None for name in names if (name in matched) == (term[0] == "&")}
    if not names:
        raise InventoryError(f"{pattern!r} selects no host", hint=_known(inventory))
    return tuple(inventory.hosts.get(name) or _localhost(name) for name in names)


def _terms(pattern: str) -> list[str]:
    if "," in pattern:
        parts: Iterable[str] = pattern.split(",")
    elif re.fullmatch(WITH_PORT, pattern) or is_address(pattern):
        parts = [pattern]
    else:
        parts = re.findall(TERM, pattern)
    terms = [part.strip() for part in parts if part.strip()]
    if not terms or any(term in "&!" for term in terms):
        raise InventoryError(f"the host pattern {pattern!r} is empty or incomplete")
    return terms


def _matches(inventory: Inventory, term: str) -> list[str]:
    """Return the names that one term stands for; a slice counts doubles, as Ansible's does."""
    if term in inventory.hosts:
        return [term]
    subscript = None if term[0] == "~" else re.fullmatch(SUBSCRIPT, term)
    name = subscript[1] if subscript else term
    found = _named(inventory, name)
    if not found and name in LOCAL:
        found = [name]
    if not found:
        raise _unmatched(inventory, name)
    return _slice(found, subscript) if subscript else found


def _unmatched(inventory: Inventory, name: str) -> InventoryError:
    if name in inventory.groups:
        return InventoryError(f"the group {name!r} has no hosts", hint=_known(inventory))
    question = did_you_mean(name, [*inventory.hosts, *inventory.groups])
    return InventoryError(
        f"{name!r} matches no host and no group", hint=question or _known(inventory)
    )


def _named(inventory: Inventory, name: str) -> list[str]:
    pattern = _compile(name)
    groups = [group for group in inventory.groups if pattern.match(group)]
    found = [host for group in groups for host in hosts_of_group(inventory, group)]
    if not groups or name[0] == "~" or not WILD.isdisjoint(name):
        found += [host for host in inventory.hosts if pattern.match(host)]
    return found


def _compile(name: str) -> re.Pattern[str]:
    try:
        return compiled(name[1:] if name[0] == "~" else fnmatch.translate(name))
    except (re.error, RecursionError, OverflowError) as failure:
        raise InventoryError(f"{name!r} is not a pattern: {failure}") from failure


def _slice(found: list[str], subscript: re.Match[str]) -> list[str]:
    _, index, begin, end = subscript.groups()
    if index is None:
        stop = int(end) + 1 if end else len(found)
        chosen = found[int(begin) : stop]
    else:
        position = int(index)
        chosen = found[position:][:1] if -len(found) <= position < len(found) else []
    if not chosen:
        raise InventoryError(
            f"{subscript[0]!r} selects no host: {subscript[1]!r} has {len(found)}, counted from 0"
        )
    return chosen


def _known(inventory: Inventory) -> str | None:
    names = [name for name in inventory.groups if hosts_of_group(inventory, name)]
    return f"groups: {', '.join(names)}" if names else None


def _localhost(name: str) -> Host:
    """Return Ansible's implicit localhost: this machine, in no group."""
    return Host(name=name, vars={"ansible_connection": Value(data="local")})

"""Host patterns: ``a:b``, ``a,!b``, ``a:&b``, globs, ``~regex``, ``group[0]``, ``group[1:3]``."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from sparkfleet.errors import InventoryError
from sparkfleet.inventory.files.ranges import is_address
from sparkfleet.inventory.membership import list_group_hosts
from sparkfleet.model import Host, Inventory, Value
from sparkfleet.regular_expressions import SlowExpressionError, compile_regex, match_texts
from sparkfleet.spelling import did_you_mean

SUBSCRIPT = r"(.+)\[(?:(-?[0-9]{1,18})|([0-9]{1,18})[:-]([0-9]{0,18}))\]"
TERM = r"(?:[^\s:\[\]]|\[[^\]]*\])+"
WITH_PORT = r"[^:\[\]]+:[0-9]+"
WILD = frozenset(".?*[")
LOCAL = ("localhost", "127.0.0.1", "::1")


def select_hosts(inventory: Inventory, pattern: str) -> tuple[Host, ...]:
    """Return the hosts that `pattern` selects, in Ansible's order, each of them once.

    Raises InventoryError for a term that matches nothing, and where nothing is left.
    """
    names: dict[str, None] = {}
    terms = _split_terms(pattern)
    included = [term for term in terms if term[0] not in "&!"] or ["all"]
    for term in included:
        names.update(dict.fromkeys(_match_term(inventory, term)))
    for term in terms:
        if term[0] in "&!":
            matched = set(_match_term(inventory, term[1:]))
            names = {name: None for name in names if (name in matched) == (term[0] == "&")}
    if not names:
        raise InventoryError(f"{pattern!r} selects no host", hint=_format_group_hint(inventory))
    return tuple(inventory.hosts.get(name) or _make_localhost(name) for name in names)


def _split_terms(pattern: str) -> list[str]:
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


def _match_term(inventory: Inventory, term: str) -> list[str]:
    """Return the names that one term selects; a slice counts duplicates, as in Ansible."""
    if term in inventory.hosts:
        return [term]
    subscript = None if term[0] == "~" else re.fullmatch(SUBSCRIPT, term)
    name = subscript[1] if subscript else term
    names = _match_names(inventory, name)
    if not names and name in LOCAL:
        names = [name]
    if not names:
        raise _make_unmatched_error(inventory, name)
    return _slice_names(names, subscript) if subscript else names


def _make_unmatched_error(inventory: Inventory, name: str) -> InventoryError:
    if name in inventory.groups:
        return InventoryError(
            f"the group {name!r} has no hosts", hint=_format_group_hint(inventory)
        )
    question = did_you_mean(name, [*inventory.hosts, *inventory.groups])
    return InventoryError(
        f"{name!r} matches no host and no group", hint=question or _format_group_hint(inventory)
    )


def _match_names(inventory: Inventory, name: str) -> list[str]:
    groups = _filter_names(name, inventory.groups)
    hosts = [host for group in groups for host in list_group_hosts(inventory, group)]
    if not groups or name[0] == "~" or not WILD.isdisjoint(name):
        hosts += _filter_names(name, inventory.hosts)
    return hosts


def _filter_names(name: str, names: Iterable[str]) -> list[str]:
    """Return those of `names` that a name, a glob or a regular expression matches."""
    listed = list(names)
    try:
        if name[0] == "~":
            found = match_texts(name[1:], listed)
        else:  # the repeats of a glob are atomic
            glob = compile_regex(fnmatch.translate(name))
            found = [glob.match(each) is not None for each in listed]
    except (re.error, RecursionError, OverflowError, SlowExpressionError) as failure:
        raise InventoryError(f"{name!r} is not a pattern: {failure}") from failure
    return [each for each, matches in zip(listed, found, strict=True) if matches]


def _slice_names(names: list[str], subscript: re.Match[str]) -> list[str]:
    _, index, begin, end = subscript.groups()
    if index is None:
        stop = int(end) + 1 if end else len(names)
        chosen = names[int(begin) : stop]
    else:
        position = int(index)
        chosen = names[position:][:1] if -len(names) <= position < len(names) else []
    if not chosen:
        raise InventoryError(
            f"{subscript[0]!r} selects no host: {subscript[1]!r} has {len(names)}, counted from 0"
        )
    return chosen


def _format_group_hint(inventory: Inventory) -> str | None:
    names = [name for name in inventory.groups if list_group_hosts(inventory, name)]
    return f"groups: {', '.join(names)}" if names else None


def _make_localhost(name: str) -> Host:
    """Return Ansible's implicit localhost: this machine, in no group."""
    return Host(name=name, vars={"ansible_connection": Value(data="local")})

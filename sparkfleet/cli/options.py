"""What a task was asked for: options as typed, parsed in one place."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkfleet.errors import UsageError
from sparkfleet.model import EMPTY
from sparkfleet.playbook.selection import ALL, Selection
from sparkfleet.quantities import parse_seconds
from sparkfleet.remote.pool import DEFAULT_FORKS
from sparkfleet.variables import VARIABLES
from sparkfleet.yaml import positions

OUTPUTS = ("text", "json")
MOST = 1_000_000  # of anything that is counted
MOST_RANKS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one task; those that a task does not have keep their defaults."""

    task: str
    inventory: tuple[str, ...] = ()
    recipe: str | None = None
    cluster: str | None = None
    limit: str | None = None
    set_variables: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # --set
    tp: int = 1
    pp: int = 1
    whole_cluster: bool = False  # every host of the cluster, not only those that tp x pp needs
    check: bool = False
    diff: bool = False
    forks: int = DEFAULT_FORKS
    lock_wait: float = 0.0  # s
    orphans: bool = False
    allow_degraded: str = ""
    verbose: bool = False
    selection: Selection = ALL
    output: str = "text"
    junit: Path | None = None
    list_tasks: bool = False
    list_hosts: bool = False
    ask_become_pass: bool = False

    @property
    def nodes(self) -> int:
        """How many Sparks the group has: one GPU each."""
        return self.tp * self.pp


def parse_options(task: str, options: Mapping[str, Any]) -> Options:
    """Return what `task` was asked for by its `options` as typed; raises UsageError."""
    _check_solo(options)
    return Options(
        task=task,
        inventory=tuple(options.get("inventory") or ()),
        recipe=options.get("recipe"),
        cluster=options.get("cluster"),
        limit=_join_limits(options.get("limit")),
        set_variables={
            **parse_variables(options.get("set") or []),
            **_parse_executor(options.get("executor")),
        },
        tp=parse_number("tp", options.get("tp"), 1, most=MOST_RANKS),
        pp=parse_number("pp", options.get("pp"), 1, most=MOST_RANKS),
        whole_cluster="tp" not in options,
        check=bool(options.get("check")),
        diff=bool(options.get("diff")),
        forks=parse_number("forks", options.get("forks"), DEFAULT_FORKS),
        orphans=bool(options.get("orphans")),
        lock_wait=parse_duration("lock-wait", options.get("lock_wait"), 0.0),
        allow_degraded=_parse_degraded_reason(options.get("allow_degraded")),
        verbose=bool(options.get("verbose")),
        selection=_parse_selection(options),
        output=_parse_output(options.get("output")),
        junit=Path(options["junit"]) if options.get("junit") else None,
        list_tasks=bool(options.get("list_tasks")),
        list_hosts=bool(options.get("list_hosts")),
        ask_become_pass=bool(options.get("ask_become_pass")),
    )


def _check_solo(options: Mapping[str, Any]) -> None:
    if options.get("solo") and any(options.get(name) for name in ("tp", "pp", "executor")):
        text = "--solo is one Spark; it does not go with --tp, --pp or --executor"
        raise UsageError(text, hint="drop one")


def _parse_executor(name: str | None) -> dict[str, str]:
    """Return the variable that ``--executor`` stands for; raises UsageError."""
    choices = VARIABLES["vllm_executor"].choices
    if name is not None and name not in choices:
        raise UsageError(f"--executor is {' or '.join(choices)}, not {name!r}")
    return {} if name is None else {"vllm_executor": name}


def _join_limits(patterns: str | Iterable[str] | None) -> str | None:
    """Return one pattern: ``a,b``, ``--limit a --limit b`` and a list mean the same (case C35)."""
    return patterns if isinstance(patterns, str) else ",".join(patterns or ()) or None


def _parse_degraded_reason(text: str | None) -> str:
    if text is not None and not text.strip():
        raise UsageError(
            "--allow-degraded needs a reason; the receipt keeps it",
            hint='type: --allow-degraded "one cable until Monday"',
        )
    return text or ""


def _parse_selection(options: Mapping[str, Any]) -> Selection:
    return Selection(
        tags=_split_values(options.get("tags")),
        skip_tags=_split_values(options.get("skip_tags")),
        start_at=options.get("start_at") or "",
    )


def _split_values(items: Iterable[str] | None) -> frozenset[str]:
    """Return the words of an option that may be given more than once, or with commas."""
    return frozenset(word.strip() for item in items or () for word in item.split(",") if word)


def _parse_output(text: str | None) -> str:
    if text in (None, *OUTPUTS):
        return text or "text"
    raise UsageError(f"--output is {' or '.join(OUTPUTS)}, not {text!r}")


def parse_number(name: str, text: str | None, default: int, *, most: int = MOST) -> int:
    """Return the whole number of option `name`, from 1 to `most`; raises UsageError."""
    if text is None:
        return default
    hint = f"type: --{name} 2"
    if not text.isdecimal() or not text.strip("0"):
        raise UsageError(f"--{name} is a whole number from 1, not {text!r}", hint=hint)
    if len(text.lstrip("0")) > len(str(most)) or int(text) > most:
        raise UsageError(f"--{name} is {most} at most, not {text}", hint=hint)
    return int(text)


def parse_duration(name: str, text: str | None, default: float, *, least: float = 0.0) -> float:
    """Return the seconds of option `name`, `least` at least; raises UsageError."""
    try:
        seconds = default if text is None else parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"--{name}: {error}", hint=f"type: --{name} 10m") from error
    if seconds < least:
        raise UsageError(f"--{name} is {least:g} s at least, not {text}", hint="give it more")
    return seconds


def parse_variables(items: list[str]) -> dict[str, Any]:
    """Return ``--set`` options as variables, their values read as YAML; raises UsageError."""
    variables = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(
                f"--set takes NAME=VALUE, not {item!r}", hint="type: --set vllm_port=8001"
            )
        variables[name] = positions.load_yaml(value, file=f"--set {name}", error=UsageError).data
    return variables


def format_command_line() -> str:
    """Return what was typed, for the lock's holder line."""
    name = Path(sys.argv[0]).name.replace("__main__.py", "sparkfleet")  # python -m sparkfleet
    return " ".join([name, *sys.argv[1:]])

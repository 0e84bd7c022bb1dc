"""Options of tasks: each is declared once, and parsed into one typed value for its task.

A task names the groups of `Options` that it offers. Options of its own are fields of a subclass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from sparkfleet.cli.set_variables import parse_variables
from sparkfleet.errors import UsageError
from sparkfleet.model import EMPTY
from sparkfleet.playbook.selection import Selection
from sparkfleet.remote.pool import DEFAULT_FORKS
from sparkfleet.resources import expand_home
from sparkfleet.values import convert_choice, convert_duration, convert_integer
from sparkfleet.variables import VARIABLES

OUTPUTS = ("text", "json")
MAX_COUNT = 1_000_000  # of anything that is counted
MAX_RANKS = 1024
METADATA_KEY = "option"

Parse = Callable[[str, Any], Any]  # of the option's name and what was typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option as it is typed; `kind` is str, bool, or list where it may be repeated.

    `value` is the kind of its value, as help shows it: FILE, N, or ``text|json``. `usual` is the
    value where none is typed. An `optional` one may stand without its name.
    """

    field: str
    help: str
    parse: Parse
    kind: type
    default: Any
    name: str
    letter: str
    positional: bool
    value: str
    usual: Any = None
    optional: bool = False

    @property
    def attribute(self) -> str:
        """The key under which invoke hands over what was typed."""
        return self.name.replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueParser:
    """Parses a value; `value` is as in Option."""

    parse: Parse
    value: str

    def __call__(self, name: str, typed: Any) -> Any:
        """Return what was typed as a value; raises UsageError."""
        return self.parse(name, typed)


def _take_value(_name: str, value: Any) -> Any:
    return value


def option(
    help: str,
    parse: Parse = _take_value,
    *,
    default: Any = None,
    kind: type = str,
    name: str = "",
    letter: str = "",
    positional: bool = False,
    value: str = "",
) -> Any:
    """Declare a field that is an option with a value; `parse` is not called for an absent one.

    `value` is as in Option, in brackets for an optional one.
    """
    settings = {
        "help": help,
        "parse": parse,
        "kind": kind,
        "default": default if kind is bool else [] if kind is list else None,
        "name": name,
        "letter": letter,
        "positional": positional,
        "optional": value.startswith("["),
        "value": value.strip("[]") or (parse.value if isinstance(parse, ValueParser) else "TEXT"),
    }
    metadata = {METADATA_KEY: settings}
    if isinstance(default, Mapping):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def flag(help: str, *, default: bool = False, letter: str = "") -> Any:
    """Declare a field that is an option without a value."""
    return option(help, default=default, kind=bool, letter=letter)


def repeated(
    help: str, parse: Parse, *, default: Any = (), name: str = "", letter: str = "", value: str = ""
) -> Any:
    """Declare a field that is an option which may be given more than once."""
    return option(help, parse, default=default, kind=list, name=name, letter=letter, value=value)


def number(*, most: int = MAX_COUNT) -> Parse:
    """Return a parser of integers from 1 to `most`."""
    return ValueParser(parse=lambda name, text: parse_number(name, text, most=most), value="N")


def duration(*, least: float = 0.0) -> Parse:
    """Return a parser of durations in seconds, `least` or more."""
    return ValueParser(
        parse=lambda name, text: parse_duration(name, text, least=least), value="DURATION"
    )


def choice(choices: Collection[str]) -> Parse:
    """Return a parser of one of `choices`."""
    return ValueParser(
        parse=lambda name, text: _parse_choice(name, text, choices), value="|".join(choices)
    )


def parse_path(_name: str, text: str) -> Path:
    """Return a path, its ``~`` expanded."""
    return expand_home(text)


def _expand_tilde(text: str) -> str:
    """Return a name or a path; bash leaves the tilde in ``--recipe=~/my.yml``."""
    return str(expand_home(text)) if text.startswith("~") else text


def parse_number(name: str, text: str, *, most: int = MAX_COUNT) -> int:
    """Return the integer of option `name`, from 1 to `most`; raises UsageError."""
    try:
        return convert_integer(text, minimum=1, maximum=most)
    except ValueError as error:
        raise UsageError(f"--{name}: {error}", hint=f"type: --{name} 2") from error


def parse_duration(name: str, text: str, *, least: float = 0.0) -> float:
    """Return the seconds of option `name`, `least` or more; raises UsageError."""
    try:
        return convert_duration(text, minimum=least)
    except ValueError as error:
        raise UsageError(f"--{name}: {error}", hint=f"type: --{name} 30s") from error


def _parse_choice(name: str, text: str, choices: Collection[str]) -> str:
    try:
        return convert_choice(text, choices)
    except ValueError as error:
        raise UsageError(
            f"--{name}: {error}", hint=f"type: --{name} {next(iter(choices))}"
        ) from error


def join_limits(_name: str, patterns: str | Iterable[str]) -> str | None:
    """Return one pattern: ``a,b``, ``--limit a --limit b`` and a list mean the same."""
    return patterns if isinstance(patterns, str) else ",".join(patterns) or None


def _parse_degraded_reason(_name: str, text: str) -> str:
    if not text.strip():
        raise UsageError(
            "--allow-degraded needs a reason; the receipt keeps it",
            hint='type: --allow-degraded "one cable until Monday"',
        )
    return text


def split_words(_name: str, items: Iterable[str]) -> frozenset[str]:
    """Return the words of an option that may be given more than once, or with commas."""
    return frozenset(word.strip() for item in items for word in item.split(",") if word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one task; those that it does not offer keep their defaults.

    `given` are the fields that were typed. With `whole_cluster` every host of the cluster counts,
    not only those that tp x pp x dp needs. `offers_size` says whether the task has --tp.
    """

    task: str
    given: frozenset[str] = frozenset()
    whole_cluster: bool = False
    offers_size: bool = field(default=False, compare=False)
    inventory: tuple[str, ...] = repeated(
        "inventory file or folder; may be given more than once",
        lambda _name, paths: tuple(map(_expand_tilde, paths)),
        letter="i",
        value="FILE",
    )
    recipe: str | None = option(
        "what to serve: a name from recipes.list, a file, or a model of the Hub, ORG/MODEL",
        lambda _name, text: _expand_tilde(text),
        value="RECIPE",
    )
    tp: int = option(
        "tensor-parallel size: how many Sparks share each layer; without a size, as many as the "
        "recipe can use, a power of two",
        number(most=MAX_RANKS),
        default=1,
    )
    pp: int = option(
        "pipeline-parallel size; a copy has tp x pp Sparks", number(most=MAX_RANKS), default=1
    )
    dp: int = option(
        "data-parallel size: copies of the model at one address", number(most=MAX_RANKS), default=1
    )
    executor: str | None = option(
        "what joins the ranks of several hosts", choice(VARIABLES["vllm_executor"].choices)
    )
    solo: bool = flag("one Spark: no fabric, no Ray")
    yes: bool = flag(
        "do not ask before changing the size of a running deployment, or running third-party code "
        "of a recipe"
    )
    cluster: str | None = option(
        "which cluster, if the inventory defines several in `clusters`", value="CLUSTER"
    )
    limit: str | None = repeated(
        "only these hosts, as an Ansible pattern: spark-01, sparks[0:1], all:!spark-03",
        join_limits,
        default=None,
        letter="l",
        value="HOSTS",
    )
    check: bool = flag("show what would change, and change nothing", letter="C")
    diff: bool = flag("show the difference of every rendered file", letter="D")
    variables: Mapping[str, Any] = repeated(
        "set a variable for all hosts: --set vllm_port=8001, or variables: --set @FILE; may be "
        "given more than once",
        lambda _name, items: parse_variables(items),
        default=EMPTY,
        name="set",
        letter="e",
        value="NAME=VALUE",
    )
    forks: int = option(
        "how many hosts to work on at the same time", number(), default=DEFAULT_FORKS, letter="f"
    )
    lock_wait: float = option(
        "how long to wait for the lock of the cluster, such as 90s or 10m", duration(), default=0.0
    )
    allow_degraded: str = option(
        "start even over links that the gate refuses; the receipt keeps the reason",
        _parse_degraded_reason,
        default="",
        value="REASON",
    )
    verbose: bool = flag(
        "show every check and all output, not only what found or changed something", letter="v"
    )
    tags: frozenset[str] = repeated(
        "only tasks with one of these tags, and `always`; separated by commas, or repeated",
        split_words,
        default=frozenset(),
        letter="t",
        value="TAG",
    )
    skip_tags: frozenset[str] = repeated(
        "skip tasks with one of these tags", split_words, default=frozenset(), value="TAG"
    )
    start_at: str = option(
        "start at the task of this name, which may be a glob", default="", value="NAME"
    )
    list_tasks: bool = flag("show the tasks, without touching a host")
    list_hosts: bool = flag("show the hosts of each play, without touching them")
    ask_become_pass: bool = flag(
        "ask once for the sudo password, before any host is touched", letter="K"
    )
    output: str = option(
        "text, or json: one document on standard output when the run has ended",
        choice(OUTPUTS),
        default="text",
    )
    junit: Path | None = option("write a JUnit report to this file", parse_path, value="FILE")
    trace: Path | None = option(
        "write a timeline of the run to this file, for ui.perfetto.dev", parse_path, value="FILE"
    )

    @property
    def set_variables(self) -> Mapping[str, Any]:
        """The variables of ``--set``, and the one that ``--executor`` sets."""
        return {**self.variables, **({"vllm_executor": self.executor} if self.executor else {})}

    @property
    def selection(self) -> Selection:
        """The tasks of a playbook that were chosen."""
        return Selection(tags=self.tags, skip_tags=self.skip_tags, start_at=self.start_at)

    @property
    def nodes(self) -> int:
        """How many Sparks all copies have together: one GPU each."""
        return self.tp * self.pp * self.dp

    @property
    def json(self) -> bool:
        """Whether the output is a JSON document."""
        return self.output == "json"


Group = tuple[str, ...]  # fields of Options

INVENTORY: Group = ("inventory", "variables")
CLUSTER: Group = (*INVENTORY, "cluster")
HOSTS: Group = (*CLUSTER, "limit")
RECIPE: Group = ("recipe",)
SIZE: Group = ("tp", "pp", "dp", "solo")
CONFIRM: Group = ("yes",)
EXECUTOR: Group = ("executor",)
FORKS: Group = ("forks",)
LOCK: Group = ("lock_wait",)
CHECK: Group = ("check",)
DIFF: Group = ("diff",)
DEGRADED: Group = ("allow_degraded",)
BECOME: Group = ("ask_become_pass",)
TAGS: Group = ("tags", "skip_tags")
LISTING: Group = ("start_at", "list_tasks", "list_hosts")
OUTPUT: Group = ("output",)
VERBOSE: Group = ("verbose",)
REPORT: Group = (*OUTPUT, *VERBOSE, "junit", "trace")
RUN: Group = (*HOSTS, *FORKS, *REPORT)  # of tasks that run a playbook

OptionsT = TypeVar("OptionsT", bound=Options)


def list_options(kind: type[Options], groups: Iterable[Group] = ()) -> list[Option]:
    """Return the options of a task: those of `groups`, and the fields that its `kind` adds."""
    classes = [base for base in kind.__mro__ if issubclass(base, Options) and base is not Options]
    own = {name for base in classes for name in base.__annotations__}
    offered = {name for group in groups for name in group} | own
    declared = {option.field: option for option in _iterate_declared(kind)}
    if unknown := offered - declared.keys():
        raise LookupError(f"{kind.__name__} has no options {', '.join(sorted(unknown))}")
    return [option for name, option in declared.items() if name in offered]


def _iterate_declared(kind: type[Options]) -> Iterator[Option]:
    for entry in fields(kind):
        if METADATA_KEY in entry.metadata:
            settings = dict(entry.metadata[METADATA_KEY])
            settings["name"] = settings["name"] or entry.name.replace("_", "-")
            settings["usual"] = entry.default
            yield Option(field=entry.name, **settings)


def parse_options(
    kind: type[OptionsT], task: str, typed: Mapping[str, Any], *, whole_cluster: bool = False
) -> OptionsT:
    """Return the options of `task` from what was typed, by invoke's keys; raises UsageError.

    `whole_cluster` says whether every host counts where no size was given, nor --solo.
    """
    declared = list(_iterate_declared(kind))
    _check_empty(declared, typed)
    _check_solo(typed)
    values = {}
    for option in declared:
        value = typed.get(option.attribute, option.default)
        if value != option.default and value is not None:
            values[option.field] = option.parse(option.name, value)
    sized = not values.keys().isdisjoint(SIZE)
    return kind(
        task=task,
        given=frozenset(values),
        whole_cluster=whole_cluster and not sized,
        offers_size="tp" in typed,
        **values,
    )


def _check_empty(declared: Iterable[Option], typed: Mapping[str, Any]) -> None:
    """Raise UsageError for an option with an empty value, such as from an unset variable."""
    for option in declared:
        value = typed.get(option.attribute)
        if value == "" or (isinstance(value, list) and "" in value):
            raise UsageError(f"--{option.name} is empty", hint="give it a value, or leave it out")


def _check_solo(typed: Mapping[str, Any]) -> None:
    if typed.get("solo") and any(typed.get(name) for name in ("tp", "pp", "dp", "executor")):
        raise UsageError(
            "--solo cannot be combined with --tp, --pp, --dp or --executor", hint="leave one out"
        )

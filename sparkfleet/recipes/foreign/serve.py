"""The one `vllm serve` of a recipe's command, as variables of sparkfleet."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.errors import RecipeError, Where
from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.recipes.foreign.draft import RecipeDraft
from sparkfleet.recipes.foreign.placeholders import CommandTemplate, ExpandedWord
from sparkfleet.recipes.foreign.words import Command, join_words, split_commands
from sparkfleet.values import parse_digits
from sparkfleet.variables.secret import NAMES as SECRET
from sparkfleet.vllm.numbers import parse_integer
from sparkfleet.vllm.options import (
    APPENDED,
    REPEAT,
    VllmOption,
    VllmOptions,
    is_option_word,
    parse_json_object,
    parse_word,
    read_vllm_options,
)
from sparkfleet.vllm.owned_options import OWNED_OPTIONS
from sparkfleet.yaml.nodes import Node, Scalar

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
CACHED = re.compile(  # the folder of a model in a cache of the Hub
    r"(?:/|~)\S*/models--(?P<owner>[\w.-]+?)--(?P<name>[\w.-]+)/snapshots/(?P<commit>[0-9a-f]{40})/?"
)
SPECULATION = "speculative-config"
SERVE = ("vllm", "serve")
MODULE = ("-m", "vllm.entrypoints.openai.api_server")
EXECUTORS = ("ray", "mp")
DEFAULT_PORT = 8000
MAX_RANKS = 9999


@dataclass(slots=True)
class ServeCommand:
    """A command that was read: environment, model, options, and whatever else it runs."""

    model: ExpandedWord | None = None
    options: VllmOptions = field(default_factory=VllmOptions)
    env: dict[str, ExpandedWord] = field(default_factory=dict)
    others: list[Command] = field(default_factory=list)
    places: dict[Where, Node] = field(default_factory=dict)

    def locate(self, option: VllmOption) -> Node:
        """Return the node at which an option has its value."""
        return self.places[option.where]

    def find(self, name: str) -> tuple[Any, Node] | None:
        """Return the value of an option with its place, None where it is not given."""
        option = self.options.find(name)
        return None if option is None else (option.value, self.locate(option))

    def size(self, name: str) -> int:
        """Return a parallel size, 1 where it is not given; raises RecipeError."""
        found = self.find(name)
        if found is None:
            return 1
        text, place = found
        try:
            size = parse_integer(text)
        except ValueError:
            size = 0
        if not 1 <= size <= MAX_RANKS:
            raise RecipeError(
                f"--{name}: expected an integer from 1 to {MAX_RANKS} (got {text!r})",
                where=place.where,
            )
        return size


def read_serve_command(node: Scalar, template: CommandTemplate) -> ServeCommand:
    """Return the `vllm serve` in a shell text; raises RecipeError where there is not just one."""
    result = ServeCommand()
    serves = 0
    for command in split_commands(node):
        parts = _take_environment([p for word in command for p in template.expand(word)], result)
        start = _find_serve(parts)
        if start is not None:
            serves += 1
            _read_serve(parts[start:], result)
        elif parts:
            result.others.append(command)
    if serves != 1:
        raise RecipeError(
            f"expected one `vllm serve` in the command (got {serves})",
            where=node.where,
            hint="sparkfleet starts vLLM only, once on each host",
        )
    return result


def _take_environment(parts: list[ExpandedWord], result: ServeCommand) -> list[ExpandedWord]:
    """Return a command without the variables before it; ``export`` alone is one too."""
    exported = bool(parts) and parts[0].text == "export"
    left = parts[1:] if exported else parts
    while left and ASSIGNMENT.match(left[0].text):
        name, _, value = left[0].text.partition("=")
        result.env[name] = ExpandedWord(text=value, place=left[0].place)
        left = left[1:]
    return [] if exported else left


def _find_serve(parts: Sequence[ExpandedWord]) -> int | None:
    """Return the index of the first word after `vllm serve`, None where it is another command."""
    texts = [part.text for part in parts]
    if texts[:1] == ["exec"]:
        texts[0] = ""
    first = 1 if texts[:1] == [""] else 0
    if tuple(texts[first : first + 2]) == SERVE:
        return first + 2
    if (
        texts[first:]
        and texts[first].startswith("python")
        and tuple(texts[first + 1 :][:2]) == MODULE
    ):
        return first + 3
    return None


def _read_serve(parts: Sequence[ExpandedWord], result: ServeCommand) -> None:
    if parts and not is_option_word(parts[0].text):
        result.model = parts[0]
        parts = parts[1:]
    places = [_choose_place(parts, index) for index in range(len(parts))]
    wheres = [
        Where(file=place.source.file, line=place.line, col=index)  # unique for each word
        for index, place in enumerate(places)
    ]
    result.places = dict(zip(wheres, places, strict=True))
    result.options = read_vllm_options(
        {}, [part.text for part in parts], locate=lambda _, index: wheres[int(index)]
    )
    found = result.find("model")
    if result.model is None and found is not None:
        result.model = ExpandedWord(text=str(found[0]), place=found[1])


def _choose_place(parts: Sequence[ExpandedWord], index: int) -> Node:
    """Return the place of an option: that of its value, which may be in the defaults."""
    if index + 1 < len(parts) and not is_option_word(parts[index + 1].text):
        return parts[index + 1].place
    return parts[index].place


def put_options(draft: RecipeDraft, command: ServeCommand) -> None:
    """Set `vllm_args` and whatever else the options decide: drafts, port, name, executor."""
    for name in dict.fromkeys(option.name for option in command.options):
        given = [option for option in command.options if option.name == name]
        option = command.options.find(name)
        if option is None:
            continue
        place = command.locate(option)
        if name == "revision" or name in OWNED_OPTIONS:  # weights_revision
            _put_owned(draft, name, option.value, place)
            continue
        dotted = any(each.path for each in given)
        if len(given) > 1 and not dotted and name not in APPENDED:
            draft.note(f"--{name} is given {len(given)} times, and the last one counts", place)
        value = _convert_value(name, option.value)
        if name == SPECULATION:
            value = _name_cached_draft(value)
        draft.put("vllm_args", name, value, place)
    _put_drafts(draft, command)


def _put_owned(draft: RecipeDraft, name: str, value: Any, place: Node) -> None:
    put = OWNED_WRITERS.get(name)
    if put is not None:
        put(draft, value, place)
    elif name in ("api-key", "hf-token"):
        draft.note(f"--{name} is left out: set {OWNED_OPTIONS[name]}", place)


def _put_served_name(draft: RecipeDraft, value: Any, place: Node) -> None:
    first, *more = value if isinstance(value, list) else [value]
    draft.set("vllm_served_name", str(first), place)
    if more:
        draft.note(f"additional served names have no counterpart: {', '.join(more)}", place)


def _put_revision(draft: RecipeDraft, value: Any, place: Node) -> None:
    draft.set("weights_revision", str(value), place)


def _put_port(draft: RecipeDraft, value: Any, place: Node) -> None:
    port = parse_digits(str(value))
    if port is not None and port != DEFAULT_PORT:
        draft.set("vllm_port", port, place)


def _note_host(draft: RecipeDraft, value: Any, place: Node) -> None:
    if value != ALL_INTERFACES:
        draft.note(f"--host {value} is left out: set vllm_host in the inventory", place)


def _put_executor(draft: RecipeDraft, value: Any, place: Node) -> None:
    if value in EXECUTORS:
        draft.set("vllm_executor", value, place)


OWNED_WRITERS: Mapping[str, Callable[[RecipeDraft, Any, Node], None]] = {
    "served-model-name": _put_served_name,
    "revision": _put_revision,
    "port": _put_port,
    "host": _note_host,
    "distributed-executor-backend": _put_executor,
}


def _convert_value(name: str, value: Any) -> Any:
    if isinstance(value, list):
        items = [parse_word(item) for item in value]
        return {REPEAT: items} if name in APPENDED else items
    return parse_word(value)


def _put_drafts(draft: RecipeDraft, command: ServeCommand) -> None:
    """Declare the draft model, which no other tool downloads by itself."""
    config = _name_cached_draft(parse_json_object(command.options.speculative_config))
    name = config.get("model")
    if isinstance(name, str) and HUB_NAME.fullmatch(name):
        found = command.find(SPECULATION) or command.find("spec-model")
        revision = config.get("revision")
        if found is not None:
            pinned = f"{name}@{revision}" if revision else name
            draft.append("weights_drafts", pinned, found[1])


def _name_cached_draft(config: Any) -> Any:
    """Return a speculative config with the name of a model in place of its path in a Hub cache."""
    path = config.get("model") if isinstance(config, dict) else None
    cached = parse_cache_path(path) if isinstance(path, str) else None
    if cached is None:
        return config
    name, commit = cached
    return {"revision": commit, **config, "model": name}


def parse_cache_path(path: str) -> tuple[str, str] | None:
    """Return the name and the commit of a model whose folder in a cache of the Hub is `path`."""
    found = CACHED.fullmatch(path)
    return (f"{found['owner']}/{found['name']}", found["commit"]) if found else None


def put_environment(draft: RecipeDraft, env: dict[str, ExpandedWord]) -> None:
    """Set the environment; secrets and values that a shell would expand are left out."""
    for name, part in env.items():
        if SECRET.search(name):
            draft.note(f"{name} is left out: keys come from your own environment", part.place)
        elif re.search(r"\$[A-Za-z_{(]", part.text):
            draft.note(f"{name} is left out: its value {part.text} needs a shell", part.place)
        else:
            variable = "nccl_env" if name.startswith("NCCL_") else "vllm_env"
            draft.put(variable, name, part.text, part.place)


def note_others(draft: RecipeDraft, command: ServeCommand) -> None:
    """Name the commands that are not `vllm serve`; none of them is run."""
    for words in command.others:
        draft.note(
            f"left out: the command runs {join_words(words)!r} in the container, and sparkfleet "
            "does not",
            words[0].place,
            "engine_pip adds packages, engine_mods scripts",
        )


def make_part(node: Node) -> ExpandedWord:
    """Return the value of an environment variable at its place."""
    return ExpandedWord(text="" if node.data is None else str(node.data), place=node)


def set_model(draft: RecipeDraft, command: ServeCommand, named: Scalar | None) -> None:
    """Set the model: that of `vllm serve`, which `named` only downloads; raises RecipeError."""
    served = command.model
    if served is None and named is None:
        raise RecipeError(
            "missing the model: neither the command nor the file names one",
            where=draft.tree.where,
        )
    if served is None and named is not None:
        draft.set("vllm_model", str(named.data), named)
        return
    if served is None:
        return
    if (cached := parse_cache_path(served.text)) is not None:
        name, commit = cached
        draft.set("vllm_model", name, served.place)
        draft.set("weights_revision", commit, served.place)
        draft.note(f"the model is a path in a Hub cache: {name} at {commit}", served.place)
        return
    if served.text.startswith(("/", ".", "~", "$")):
        draft.note(f"the model {served.text} is a path on the machine of its author", served.place)
        if named is not None:
            draft.set("vllm_model", str(named.data), named)
            return
    elif named is not None and str(named.data) != served.text:
        draft.note(
            f"model: {named.data} differs from the model that is served, {served.text}", named
        )
    draft.set("vllm_model", served.text, served.place)

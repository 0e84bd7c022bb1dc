"""The options of `vllm serve`, read as vLLM's own parser reads them.

This is the only reader: rules, the memory estimate, staging and the start all use it, so that
``vllm_args: {quantization: fp8}``, ``{q: fp8}`` and ``vllm_raw_args: ["-q", "fp8"]`` are one
option. Sources: vllm/engine/arg_utils.py, vllm/entrypoints/openai/cli_args.py and
vllm/utils/argparse_utils.py of vLLM 0.10.2 to 0.33.0.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparkfleet.errors import Where
from sparkfleet.values import parse_json
from sparkfleet.vllm.dotted_options import merge_dotted_values, remove_dotted_keys
from sparkfleet.vllm.numbers import convert_fraction, is_auto_length
from sparkfleet.vllm.option_names import (
    ATTACHED,
    COMPILATION,
    SHORT_NAMES,
    is_level,
    negate_flag,
    remove_negation,
    spell_option,
    split_option_name,
    write_flag,
)
from sparkfleet.vllm.option_types import (
    NO_VALUE,
    ONE_FORM,
    convert_option_integer,
    load_option_forms,
)

DEFAULT_MEMORY_UTILIZATION = 0.92  # gpu_memory_utilization in vllm/config/cache.py
APPENDED = ("middleware",)  # argparse's action "append"; of all others the last one counts
REPEAT = "repeat"  # the only key of a mapping whose items are each given the option anew
SPECULATION = "speculative-config"
SPECULATIVE_KEYS = {  # options that set one key of --speculative-config, since 0.22.1
    "spec-method": "method",
    "spec-model": "model",
    "spec-tokens": "num_speculative_tokens",
}
NOWHERE = Where(file="")
NUMBER_CHARACTERS = frozenset("-.0123456789")


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOption:
    """An option of `vllm serve`.

    `name` is its long name without dashes and `written` what the file has, ``-q`` or
    ``speculative_config.model``. `path` are the keys after the name, ``("model",)``. `value` is
    True for a flag, False for its negation, None for an option of `vllm_args` that is null, and a
    list where several words follow. `is_raw` is whether it is a word of `vllm_raw_args`, and
    `is_attached` whether it is one word with its value.
    """

    name: str
    written: str
    value: Any
    where: Where
    path: tuple[str, ...] = ()
    is_raw: bool = False
    is_attached: bool = False

    @property
    def flag(self) -> str:
        """The option as a command line has it, by its long name."""
        return "--" + ".".join((self.name, *self.path))

    @property
    def written_flag(self) -> str:
        """The option as a command line has it, by the name that is written."""
        return write_flag(self.written)

    @property
    def head(self) -> str:
        """The word before the first dot, by which vLLM gathers the keys of an object."""
        word = self.written if self.is_raw else spell_option(self.written, self.value)[0]
        head = word.partition(".")[0]
        return head.replace("_", "-") if head.startswith("--") else head

    @property
    def plain_name(self) -> str:
        """Its long name without a negation, which `name` has where the value is text."""
        return remove_negation(self.name)

    @property
    def integer(self) -> int | None:
        """The integer that it has; None for another value, and for the longest that fits."""
        if self.name == "max-model-len" and is_auto_length(self.value):
            return None
        try:
            return convert_option_integer(self.name, self.value)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """The options of one `vllm serve`, in their order; those given twice or as null included."""

    options: tuple[VllmOption, ...] = ()

    def __iter__(self) -> Iterator[VllmOption]:
        return iter(self.options)

    def find(self, name: str) -> VllmOption | None:
        """Return an option with the value that vLLM takes, or None where it is not set.

        Dotted keys make up one JSON object for each word before the first dot, ``-cc`` and
        ``--compilation-config``. The last of these words counts, and no object that is given whole.
        """
        given = [
            option for option in self.options if option.name == name and option.value is not None
        ]
        if not given:
            return None
        if dotted := [option for option in given if option.path]:
            heads = {option.head: option for option in reversed(dotted)}
            last = heads[list(dict.fromkeys(option.head for option in dotted))[-1]]
            keys = ((each.path, each.value) for each in dotted if each.head == last.head)
            return _replace_value(last, merge_dotted_values(keys))
        if name in APPENDED:
            return _replace_value(given[0], [option.value for option in given])
        return None if _has_no_value(given[-1]) else given[-1]

    def value(self, name: str) -> Any:
        """Return the value that vLLM takes, or None where the option is not set."""
        option = self.find(name)
        return None if option is None else option.value

    def integer(self, name: str) -> int | None:
        """Return the integer that an option has; None for another value and where it is not set."""
        option = self.find(name)
        return None if option is None else option.integer

    def fraction(self, name: str) -> float | None:
        """Return a share above 0 and up to 1, None where it is not set; raises ValueError."""
        value = self.value(name)
        return None if value is None else convert_fraction(value)

    @property
    def memory_utilization(self) -> float:
        """The share of each node's memory that vLLM takes; raises ValueError."""
        given = self.fraction("gpu-memory-utilization")
        return DEFAULT_MEMORY_UTILIZATION if given is None else given

    @property
    def speculative_config(self) -> Any:
        """The value of --speculative-config with --spec-method, --spec-model and --spec-tokens.

        Its keys have underscores, as vLLM takes dashes for them. None where none of the options is
        set; what is not a JSON object is returned as it is written.
        """
        value = self.value(SPECULATION)
        given = {key: self.value(name) for name, key in SPECULATIVE_KEYS.items()}
        tokens = self.integer("spec-tokens")
        given["num_speculative_tokens"] = self.value("spec-tokens") if tokens is None else tokens
        given = {key: item for key, item in given.items() if item is not None}
        config = {**parse_json_object(value), **given}
        return {str(key).replace("-", "_"): item for key, item in config.items()} or value

    def with_values(self, values: Mapping[str, Any]) -> VllmOptions:
        """Return these options with others after them, by their long names; they win."""
        return VllmOptions((*self.options, *read_vllm_options(values)))

    def by_name(self) -> dict[str, Any]:
        """Return the value of every option that is set."""
        values = {option.name: self.value(option.name) for option in self.options}
        return {name: value for name, value in values.items() if value is not None}


def read_vllm_options(
    args: Mapping[str, Any],
    raw_args: Sequence[Any] = (),
    *,
    locate: Callable[[str, str], Where] | None = None,
) -> VllmOptions:
    """Return the options in `vllm_args` and, after them, in `vllm_raw_args`.

    `locate` returns the place of an entry of a variable: a key, or the index of a word.
    """
    find_place = locate or _return_no_place
    named = (
        option
        for written, value in lay_dotted_keys(args).items()
        for option in _read_entry(str(written), value, find_place("vllm_args", str(written)))
    )
    words = [str(word) for word in raw_args]
    places = [find_place("vllm_raw_args", str(index)) for index in range(len(words))]
    return VllmOptions((*named, *_read_words(words, places)))


def read_command_line(words: Sequence[str]) -> VllmOptions:
    """Return the options among the words of a command line; other words are passed over."""
    return read_vllm_options({}, words)


def lay_dotted_keys(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `vllm_args` with each dotted key in its object, where that is given whole.

    So an inventory sets one key of a recipe's object, which vLLM would drop for it, or removes one
    with null. An object without a key left is null itself.
    """
    read = [_build_option(written, value, NOWHERE) for written, value in args.items()]
    laid = dict(args)
    for whole in read:
        base = parse_json_object(whole.value)
        below = [option for option in read if option.name == whole.name and option.path]
        if base and below and not whole.path and list_repeated_items(base) is None:
            base = remove_dotted_keys(base, [each.path for each in below if each.value is None])
            keys = [(option.path, option.value) for option in below if option.value is not None]
            laid[whole.written] = merge_dotted_values(keys, base=base) or None
            gone = {option.written for option in below}
            laid = {key: value for key, value in laid.items() if key not in gone}
    return laid


def identify_option(written: str, value: Any) -> tuple[str, ...]:
    """Return what is the same for every spelling of an option: its plain name and its keys."""
    option = _build_option(written, value, NOWHERE)
    return (option.plain_name, *option.path)


def list_covered_options(written: str, value: Any) -> list[tuple[str, ...]]:
    """Return the options that one of a nearer layer replaces, as `identify_option` has them.

    A null for -O is one for each of its options, and an object replaces those that set its keys.
    """
    covered = [identify_option(written, value)]
    if value is None and written.lstrip("-") == "O":
        covered.append((SHORT_NAMES["O"],))
    if (SPECULATION,) in covered:
        covered += [(name,) for name in SPECULATIVE_KEYS]
    return covered


def list_repeated_items(value: Any) -> list[Any] | None:
    """Return the values for each of which an option is given anew; None for any other value."""
    items = value.get(REPEAT) if isinstance(value, Mapping) and len(value) == 1 else None
    return items if isinstance(items, list) else None


def is_option_word(word: str) -> bool:
    """Return whether a word of a command line is an option, and not a value such as -1."""
    name = word.partition("=")[0]
    return re.match(r"--?[A-Za-z]", word) is not None and " " not in name


def parse_json_object(value: Any) -> Mapping[str, Any]:
    """Return a mapping, or the one that is JSON in a text; empty for anything else."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError:
            return {}
    return value if isinstance(value, Mapping) else {}


def parse_word(word: Any) -> Any:
    """Return the number, list or mapping that a word of a command line is; others as they are.

    So are numbers in another form, such as 007 and 1e5, which may be a name or a revision.
    """
    if not isinstance(word, str):
        return word
    try:
        value = parse_json(word)
    except ValueError:
        return word
    is_number = type(value) in (int, float) and NUMBER_CHARACTERS.issuperset(word)
    return value if is_number or isinstance(value, list | dict) else word


def _return_no_place(_variable: str, _entry: str) -> Where:
    return NOWHERE


def _has_no_value(option: VllmOption) -> bool:
    return option.value in NO_VALUE and option.name in load_option_forms().optional


def _takes_one_word(name: str) -> bool:
    forms = load_option_forms()
    return forms.words.get(name) == ONE_FORM and name not in forms.json_lists


def _replace_value(option: VllmOption, value: Any) -> VllmOption:
    return replace(option, value=value, path=())


def _read_entry(written: str, value: Any, where: Where) -> Iterator[VllmOption]:
    """Yield the options that an entry of `vllm_args` becomes."""
    items = list_repeated_items(value)
    for item in [value] if items is None else items:
        yield _build_option(written, item, where)


def _read_words(words: Sequence[str], places: Sequence[Where]) -> Iterator[VllmOption]:
    starts = [index for index, word in enumerate(words) if is_option_word(word)]
    for start, end in itertools.pairwise([*starts, len(words)]):
        word, attached = _split_value(words[start])
        values = [*attached, *words[start + 1 : end]]
        value = values if len(values) > 1 else (values[0] if values else True)
        option = _build_option(word, value, places[start], is_raw=True)
        yield replace(option, is_attached=bool(attached))


def _split_value(word: str) -> tuple[str, list[str]]:
    """Return an option's word, and the value that is attached to it: --name=value, -n2, -O3."""
    if attached := ATTACHED.fullmatch(word):
        short, value = (group for group in attached.groups() if group is not None)
        return f"-{short}", [value]
    name, equals, value = word.partition("=")
    return name, [value] if equals else []


def _build_option(written: str, value: Any, where: Where, *, is_raw: bool = False) -> VllmOption:
    name, path = split_option_name(written, is_raw=is_raw)
    if name == SHORT_NAMES["O"] and written.lstrip("-").startswith("O"):
        name = name if is_level(value) and not path else COMPILATION
    plain_name = remove_negation(name)
    if plain_name != name and (value is None or isinstance(value, bool)):
        name, value = plain_name, negate_flag(value)
    value = list(value) if isinstance(value, tuple) else value
    if isinstance(value, list) and len(value) == 1 and not path and _takes_one_word(plain_name):
        value = value[0]
    return VllmOption(
        name=name, written=written, value=value, where=where, path=path, is_raw=is_raw
    )

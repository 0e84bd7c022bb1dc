"""Convert the values of a playbook to the arguments of an action, by their types."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sparkfleet.values import (
    convert_choice,
    convert_flag,
    convert_integer,
    convert_mapping,
    convert_number,
    convert_string,
)

MAX_NUMBER = 10**9  # clocks take no more than some years of seconds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of an action; `default` is None if it is required, or means "not given"."""

    name: str
    hint: Any
    help: str
    needed: bool
    default: Any = None

    @property
    def kind(self) -> str:
        """The type, for documentation."""
        return _format_type(self.hint)


def list_arguments(args_type: type[Any]) -> Mapping[str, Argument]:
    """Return the arguments of `args_type`: the required ones first, then its own."""
    hints = get_type_hints(args_type)
    declared = inspect.get_annotations(args_type)
    arguments = [
        _read_argument(field, hints[field.name]) for field in dataclasses.fields(args_type)
    ]
    arguments.sort(key=lambda argument: (not argument.needed, argument.name not in declared))
    return {argument.name: argument for argument in arguments}


def _read_argument(field: dataclasses.Field[Any], hint: Any) -> Argument:
    needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return Argument(
        name=field.name,
        hint=hint,
        help=field.metadata.get("help", ""),
        needed=needed,
        default=None if needed else field.default,
    )


def convert_argument(value: Any, hint: Any) -> Any:
    """Return `value` converted to `hint`; raises InvalidValueError."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return convert_argument(
            value, next(option for option in get_args(hint) if option is not types.NoneType)
        )
    if origin is Literal:
        return convert_choice(value, get_args(hint))
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(convert_argument(item, get_args(hint)[0]) for item in items)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return convert_mapping(value)
    return CONVERSIONS[hint](value)


def convert_amount(value: Any, *, strict: bool = False) -> float:
    """Return a number >= 0 that a clock takes; `strict` takes no text, such as "2"."""
    return convert_number(convert_number(value, minimum=0, strict=strict), maximum=MAX_NUMBER)


CONVERSIONS: Mapping[Any, Callable[[Any], Any]] = {
    object: lambda value: value,
    str: convert_string,
    bool: convert_flag,
    int: convert_integer,
    float: convert_amount,
}


def _format_type(hint: Any) -> str:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _format_type(
            next(option for option in get_args(hint) if option is not types.NoneType)
        )
    if origin is Literal:
        return ", ".join(get_args(hint))
    if origin is tuple:
        return f"{_format_type(get_args(hint)[0])}, or a list of them"
    if isinstance(origin, type):
        return "mapping"
    names = {object: "anything", str: "string", bool: "true or false", int: "integer"}
    return names.get(hint, "number")

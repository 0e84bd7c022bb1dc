"""Convert the values of a playbook to the arguments of an action, by their types."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sparkfleet.values import FALSE, TRUE


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
    """Return `value` converted to `hint`; raises ValueError with the rest of a sentence."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return convert_argument(
            value, next(option for option in get_args(hint) if option is not types.NoneType)
        )
    if origin is Literal:
        return _convert_choice(value, get_args(hint))
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(convert_argument(item, get_args(hint)[0]) for item in items)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _convert_mapping(value)
    return CONVERSIONS[hint](value)


def _convert_choice(value: Any, choices: tuple[str, ...]) -> str:
    if value in choices:
        return str(value)
    raise ValueError(f"must be one of {', '.join(choices)} (got {value!r})")


def _convert_mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise ValueError(f"must be a mapping (got {value!r})")


def _convert_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"must be a string (got {value!r}): put it in quotes")


def _convert_flag(value: Any) -> bool:
    text = str(value).lower()
    if isinstance(value, bool | str) and text in (*TRUE, *FALSE):
        return text in TRUE
    raise ValueError(f"must be true or false (got {value!r})")


def _convert_integer(value: Any) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number or (isinstance(value, str) and value.isascii() and value.isdigit()):
        return int(value)
    raise ValueError(f"must be an integer (got {value!r})")


def _convert_number(value: Any) -> float:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = -1.0
        if 0 <= number < 1e9:  # also excludes nan
            return number
    raise ValueError(f"must be a number >= 0 (got {value!r})")


CONVERSIONS = {
    object: lambda value: value,
    str: _convert_text,
    bool: _convert_flag,
    int: _convert_integer,
    float: _convert_number,
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

"""Validate the values of sparkfleet's variables."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sparkfleet.errors import InvalidValueError, quote_value
from sparkfleet.safe_paths import is_cluster_name
from sparkfleet.values import (
    convert_choice,
    convert_duration,
    convert_flag,
    convert_integer,
    convert_ipv4_address,
    convert_mapping,
    convert_number,
    convert_size,
    convert_text,
)
from sparkfleet.variables import Kind, Variable
from sparkfleet.variables.names import CLUSTER_RULE
from sparkfleet.variables.secret import FROM_FILE, is_file, mask_secret

NETDEV = r"[A-Za-z0-9_.-]{1,15}"  # the kernel's IFNAMSIZ, less the final NUL
HCA = r"[A-Za-z0-9_]+(:\d+)?"
HCA_PREFIX = r"\^?=?"
PLACEHOLDER = r"[<>XYZ]"  # rocepXsYfZ, <interface>: left over from an example
CABLE_END = r"[^\s:]+:[A-Za-z0-9_.-]{1,15}"
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # C0, DEL, C1; undecodable bytes
LINES = {ord("\t"): None, ord("\n"): None}


def validate_value(row: Variable, data: Any, raw: Any = None) -> str | None:
    """Return what is wrong with `data` as a value of `row`, as the rest of a sentence, or None.

    `raw` is the same before its templates were rendered: it shows which parts are secret.
    """
    if data is None:
        return None
    check = SPECIAL.get(row.name) or functools.partial(_check_kind, row)
    try:
        check(data)
        _check_characters(row, data)
    except InvalidValueError as error:
        quoted = "a secret" if row.secret else quote_value(mask_secret(data, raw))
        return f"expected {error.expected} (got {quoted})"
    return None


def _check_kind(row: Variable, data: Any) -> None:
    """Raise InvalidValueError for a value of another type, or out of the bounds of `row`."""
    match row.kind:
        case Kind.TEXT if row.choices:
            convert_choice(data, row.choices)
        case Kind.INTEGER:
            convert_integer(data, minimum=row.minimum, maximum=row.maximum, strict=True)
        case Kind.NUMBER:
            convert_number(data, minimum=row.minimum, maximum=row.maximum, strict=True)
        case Kind.SIZE:
            convert_size(data, minimum=row.minimum or 0, maximum=row.maximum)
        case Kind.DURATION:
            convert_duration(data, minimum=row.minimum or 0.0)
        case _:
            KINDS[row.kind](data)


def _check_characters(row: Variable, data: Any) -> None:
    """Raise InvalidValueError for control characters, which could leave a rendered line."""
    for text in _iterate_texts(data):
        if CONTROL.search(text.translate(LINES) if row.lines else text):
            allowed = " other than tabs and line breaks" if row.lines else ""
            raise InvalidValueError(f"no control characters{allowed}", data)


def _iterate_texts(data: Any) -> Iterator[str]:
    """Yield every text in `data`."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for name, item in data.items():
            yield from _iterate_texts(name)
            yield from _iterate_texts(item)
    elif isinstance(data, list | tuple):
        for item in data:
            yield from _iterate_texts(item)


def _check_host_folder(data: Any) -> None:
    convert_text(data)
    # a host expands ~ and no variable; a container mounts no relative path
    if not re.fullmatch(r"[/~][^$]*", data):
        raise InvalidValueError("an absolute path, or one that begins with ~", data)


def _check_cluster_name(data: Any) -> None:
    if not is_cluster_name(data):
        raise InvalidValueError(f"a name: {CLUSTER_RULE}", data)


def _check_list(data: Any) -> None:
    if not (isinstance(data, list) and all(isinstance(item, str) and item for item in data)):
        raise InvalidValueError("a list of text, like [a, b]", data)


def _check_environment(data: Any) -> None:
    for name, item in convert_mapping(data).items():
        if isinstance(item, bool) or not isinstance(item, str | int | float | None):
            quotes = " in quotes" if isinstance(item, bool) else ""
            raise InvalidValueError(f"text{quotes}, a number or null for {name}", data)


def _check_rank_environment(data: Any) -> None:
    """Let a value also be the content of a file of this machine."""
    entries = convert_mapping(data).items()
    _check_environment({name: item for name, item in entries if not is_file(item)})


def _check_interfaces(data: Any) -> None:
    _check_list(data)
    if not 1 <= len(data) <= 4 or len(set(data)) < len(data):
        raise InvalidValueError("1 to 4 different interfaces", data)
    for name in data:
        _check_interface(name)


def _is_interface(data: Any) -> bool:
    return (
        isinstance(data, str)
        and re.fullmatch(NETDEV, data) is not None
        and not re.search(PLACEHOLDER, data)
    )


def _check_interface(data: Any) -> None:
    if not _is_interface(data):
        raise InvalidValueError("the name of an interface, as `ip -br link` shows it", data)


def _check_hcas(data: Any) -> None:
    names = re.sub(HCA_PREFIX, "", data, count=1).split(",") if isinstance(data, str) else [""]
    if not all(re.fullmatch(HCA, name) and not re.search(PLACEHOLDER, name) for name in names):
        form = "HCAs as NAME or NAME:PORT, separated by commas, optionally after = or ^"
        raise InvalidValueError(form, data)


def _check_gid_index(data: Any) -> None:
    if data in ("auto", "unset"):
        return
    try:
        convert_integer(data, minimum=0, maximum=255)
    except InvalidValueError as error:
        raise InvalidValueError("auto, unset or an integer from 0 to 255", data) from error


def _check_addresses(data: Any) -> None:
    for name, address in convert_mapping(data).items():
        try:
            ipaddress.ip_interface(convert_text(address))
            is_address = "/" in address
        except ValueError:
            is_address = False
        if not is_address or not _is_interface(name):
            raise InvalidValueError(f"{name} with an address like 192.168.100.10/24", data)


def _check_cables(data: Any) -> None:
    for name, end in convert_mapping(data).items():
        is_end = isinstance(end, str) and re.fullmatch(CABLE_END, end)
        if not is_end or not _is_interface(name):
            raise InvalidValueError(f"{name} with the far end as HOST:INTERFACE", data)


def _check_clusters(data: Any) -> None:
    """Accept all: `clusters.read_cluster_definitions` names the entry that is wrong."""


def _check_notify(data: Any) -> None:
    entries = convert_mapping(data)
    known = entries.keys() <= {"webhook", "command"}
    if not known or not is_file(entries.get("webhook", {FROM_FILE: ""})):
        raise InvalidValueError("webhook: {from_file: PATH}, command: [PROGRAM], or both", data)
    _check_list(entries.get("command", []))


def _check_page(data: Any) -> None:
    from sparkfleet.variables.binding import parse_binding  # noqa: PLC0415 - few serve a page

    entries = convert_mapping(data)
    if not entries.keys() <= {"bind", "token_file"}:
        raise InvalidValueError("bind: ADDRESS:PORT, token_file: PATH, or both", data)
    if "token_file" in entries:
        convert_text(entries["token_file"])
    try:
        if "bind" in entries:
            parse_binding(convert_text(entries["bind"]))
    except ValueError as error:
        raise InvalidValueError("bind: ADDRESS:PORT with an IP address", data) from error


def _check_rank_vars(data: Any) -> None:
    try:
        for item in data if isinstance(data, list) else [None]:
            convert_mapping(item)
    except InvalidValueError as error:
        raise InvalidValueError("a list of mappings, the first for the head", data) from error


KINDS: Mapping[Kind, Callable[[Any], object]] = {
    Kind.TEXT: convert_text,
    Kind.FLAG: functools.partial(convert_flag, strict=True),
    Kind.LIST: _check_list,
    Kind.ENVIRONMENT: _check_environment,
    Kind.MAPPING: convert_mapping,
}

SPECIAL: Mapping[str, Callable[[Any], object]] = {
    "cluster_name": _check_cluster_name,
    "cluster_dir": _check_host_folder,
    "cluster_rank_vars": _check_rank_vars,
    "clusters": _check_clusters,
    "link_addresses": _check_addresses,
    "link_cables": _check_cables,
    "link_control_interface": _check_interface,
    "link_interfaces": _check_interfaces,
    "nccl_ib_gid_index": _check_gid_index,
    "nccl_ib_hca": _check_hcas,
    "notify": _check_notify,
    "page": _check_page,
    "vllm_env": _check_rank_environment,
    "vllm_host": functools.partial(convert_ipv4_address, owner="the head"),
    "weights_dir": _check_host_folder,
}

"""Validate the values of sparkfleet's variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sparkfleet.quantities import parse_seconds, parse_size
from sparkfleet.variables import Kind, Variable
from sparkfleet.variables.names import CLUSTER_RULE, is_valid_cluster_name
from sparkfleet.variables.secret import is_file, is_secret, mask_secret

NETDEV = r"[A-Za-z0-9_.-]{1,15}"  # the kernel's IFNAMSIZ, less the final NUL
HCA = r"[A-Za-z0-9_]+(:\d+)?"
HCA_PREFIX = r"\^?=?"
PLACEHOLDER = r"[<>XYZ]"  # rocepXsYfZ, <interface>: left over from an example
CABLE_END = r"[^\s:]+:[A-Za-z0-9_.-]{1,15}"
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # C0, DEL, C1; undecodable bytes
LINES = {ord("\t"): None, ord("\n"): None}
SHOWN = 60  # characters of a value that a message quotes


def validate_value(row: Variable, data: Any, raw: Any = None) -> str | None:
    """Return what is wrong with `data` as a value of `row`, as the rest of a sentence, or None.

    `raw` is the same before its templates were rendered: it shows which parts are secret.
    """
    if data is None:
        return None
    wrong = KINDS[row.kind](data) if row.name not in SPECIAL else SPECIAL[row.name](data)
    if wrong is None and row.choices and data not in row.choices:
        wrong = f"must be {' or '.join(row.choices)}"
    wrong = wrong or _validate_range(row, data) or _validate_characters(row, data)
    return f"{wrong}, not {_quote_data(row, data, raw)}" if wrong else None


def _quote_data(row: Variable, data: Any, raw: Any) -> str:
    text = "a secret of another form" if row.secret else repr(mask_secret(data, raw))
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def _parse_bound(data: Any) -> float:
    """Return a number for a comparison; float() refuses an integer of 400 digits."""
    return data if isinstance(data, int) else float(data)


def _validate_range(row: Variable, data: Any) -> str | None:
    parse = {Kind.SIZE: parse_size, Kind.DURATION: parse_seconds}.get(row.kind, _parse_bound)
    if row.minimum is not None and parse(data) < row.minimum:
        return f"must be at least {row.minimum}"
    if row.maximum is not None and parse(data) > row.maximum:
        return f"must be at most {row.maximum}"
    return None


def _validate_characters(row: Variable, data: Any) -> str | None:
    if not any(
        CONTROL.search(text.translate(LINES) if row.lines else text)
        for text in _iterate_texts(data)
    ):
        return None
    return f"must hold no control characters{' but tabs and line ends' if row.lines else ''}"


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


def _validate_text(data: Any) -> str | None:
    return None if isinstance(data, str) and data else "must be text"


def _validate_host_folder(data: Any) -> str | None:
    if wrong := _validate_text(data):
        return wrong
    # a host expands ~ and no variable; a container mounts no relative path
    return None if re.fullmatch(r"[/~][^$]*", data) else "must be a full path, or begin with ~"


def _validate_cluster_name(data: Any) -> str | None:
    return None if is_valid_cluster_name(data) else f"must be a name: {CLUSTER_RULE}"


def _validate_integer(data: Any) -> str | None:
    return None if isinstance(data, int) and not isinstance(data, bool) else "must be an integer"


def _validate_number(data: Any) -> str | None:
    is_number = isinstance(data, int | float) and not isinstance(data, bool)
    return None if is_number else "must be a number"


def _validate_flag(data: Any) -> str | None:
    return None if isinstance(data, bool) else "must be true or false"


def _validate_list(data: Any) -> str | None:
    if isinstance(data, list) and all(isinstance(item, str) and item for item in data):
        return None
    return "must be a list of text, like [a, b]"


def _validate_mapping(data: Any) -> str | None:
    if isinstance(data, dict) and all(isinstance(key, str) for key in data):
        return None
    return "must be a mapping of names to values"


def _validate_environment(data: Any) -> str | None:
    if wrong := _validate_mapping(data):
        return wrong
    for name, item in data.items():
        if isinstance(item, bool) or not isinstance(item, str | int | float | None):
            shown = "something else" if is_secret(name) else f"{item!r} (quote it)"
            return f"must hold text, numbers or null; {name} is {shown}"
    return None


def _validate_rank_environment(data: Any) -> str | None:
    """Let a value also be the content of a file of this machine."""
    if wrong := _validate_mapping(data):
        return wrong
    return _validate_environment({name: item for name, item in data.items() if not is_file(item)})


def _validate_size(data: Any) -> str | None:
    try:
        parse_size(data)
    except ValueError:
        return "must be a size: bytes, or text like 10GiB"
    return None


def _validate_duration(data: Any) -> str | None:
    try:
        parse_seconds(data)
    except ValueError:
        return "must be a duration: seconds, or text like 90s, 20m, 1h"
    return None


def _validate_interfaces(data: Any) -> str | None:
    if wrong := _validate_list(data):
        return wrong
    if not 1 <= len(data) <= 4 or len(set(data)) < len(data):
        return "must name 1 to 4 different interfaces"
    return next((wrong for name in data if (wrong := _validate_interface(name))), None)


def _validate_interface(data: Any) -> str | None:
    if isinstance(data, str) and re.fullmatch(NETDEV, data) and not re.search(PLACEHOLDER, data):
        return None
    return "must be the name of an interface, as `ip -br link` shows it"


def _validate_hcas(data: Any) -> str | None:
    names = re.sub(HCA_PREFIX, "", data, count=1).split(",") if isinstance(data, str) else [""]
    if all(re.fullmatch(HCA, name) and not re.search(PLACEHOLDER, name) for name in names):
        return None
    return "must be HCA names, NAME or NAME:PORT, with commas between, after =, ^ or nothing"


def _validate_gid_index(data: Any) -> str | None:
    is_index = str(data).isdecimal() and int(data) <= 255 and not isinstance(data, bool)
    return None if is_index or data in ("auto", "unset") else "must be auto, unset or 0 to 255"


def _validate_addresses(data: Any) -> str | None:
    import ipaddress  # noqa: PLC0415 - few inventories give addresses

    if wrong := _validate_mapping(data):
        return wrong
    for name, address in data.items():
        try:
            ipaddress.ip_interface(address)
        except ValueError:
            return f"must give {name} an address like 192.168.100.10/24"
        if _validate_interface(name) or "/" not in str(address):
            return f"must give {name} an address like 192.168.100.10/24"
    return None


def _validate_cables(data: Any) -> str | None:
    if wrong := _validate_mapping(data):
        return wrong
    for name, end in data.items():
        if (
            _validate_interface(name)
            or not isinstance(end, str)
            or not re.fullmatch(CABLE_END, end)
        ):
            return f"must give {name} the far end as HOST:INTERFACE"
    return None


def _validate_clusters(data: Any) -> str | None:  # noqa: ARG001 - `clusters.definitions` looks inside
    return None


def _validate_rank_vars(data: Any) -> str | None:
    if isinstance(data, list) and not any(_validate_mapping(item) for item in data):
        return None
    return "must be a list of mappings, the first for the head"


KINDS: Mapping[Kind, Callable[[Any], str | None]] = {
    Kind.TEXT: _validate_text,
    Kind.INTEGER: _validate_integer,
    Kind.NUMBER: _validate_number,
    Kind.FLAG: _validate_flag,
    Kind.LIST: _validate_list,
    Kind.ENVIRONMENT: _validate_environment,
    Kind.MAPPING: _validate_mapping,
    Kind.SIZE: _validate_size,
    Kind.DURATION: _validate_duration,
}

SPECIAL: Mapping[str, Callable[[Any], str | None]] = {
    "cluster_name": _validate_cluster_name,
    "cluster_dir": _validate_host_folder,
    "cluster_rank_vars": _validate_rank_vars,
    "clusters": _validate_clusters,
    "link_addresses": _validate_addresses,
    "link_cables": _validate_cables,
    "link_control_interface": _validate_interface,
    "link_interfaces": _validate_interfaces,
    "nccl_ib_gid_index": _validate_gid_index,
    "nccl_ib_hca": _validate_hcas,
    "vllm_env": _validate_rank_environment,
    "weights_dir": _validate_host_folder,
}

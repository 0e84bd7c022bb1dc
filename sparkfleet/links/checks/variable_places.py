"""The settings of the inventory that give a variable of a rank's environment its value; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkfleet.model import Host

MAPPINGS = ("vllm_env", "nccl_env")  # the first one wins
# The variable of the inventory that also sets a variable of NCCL; both mappings win over it.
SHORT_NAMES = {"NCCL_IB_HCA": "nccl_ib_hca", "NCCL_IB_GID_INDEX": "nccl_ib_gid_index"}


def format_removal(host: Host, name: str) -> str:
    """Return what to remove so that `name` gets the computed value; "" where nothing sets it.

    Without this a fix names a place where the variable is not set, and has no effect.
    """
    places = tuple(_find_places(host, name))
    if not places:
        return ""
    short = SHORT_NAMES.get(name)
    if short and places == (short,):
        return f"remove {short}{_format_where(host, short, short)}"
    where = " and ".join(f"{place}{_format_where(host, place, name)}" for place in places)
    return f"remove {name} from {where}"


def _find_places(host: Host, name: str) -> Iterator[str]:
    for variable in MAPPINGS:
        data = host.get(variable)
        if isinstance(data, Mapping) and name in data:
            yield variable
    short = SHORT_NAMES.get(name)
    if short and host.get(short) is not None:
        yield short


def _format_where(host: Host, variable: str, name: str) -> str:
    value = host.vars[variable]
    where = value.entries.get(name) or value.where
    return f" at {where}" if where else ""

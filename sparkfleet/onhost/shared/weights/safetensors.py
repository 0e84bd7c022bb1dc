"""Check safetensors files and their indexes."""

from __future__ import annotations

import json
from pathlib import Path

LONGEST = 100_000_000  # bytes of a header; the format's own limit
LONGEST_NAME = 255  # characters of a file's name


def find_header_problem(path: Path, size: int) -> str | None:
    """Return the problem of a safetensors header, which gives the length of the file."""
    with path.open("rb") as shard:
        length = int.from_bytes(shard.read(8), "little")
        if length > min(size - 8, LONGEST):
            return f"a header of {length} bytes (100 MB at most) in a file of {size}"
        try:
            tensors = json.loads(shard.read(length))
            ends = (t["data_offsets"][1] for name, t in tensors.items() if name != "__metadata__")
            whole = 8 + length + max(ends, default=0)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return "no safetensors header"
    return None if whole == size else f"{size} bytes where the header says {whole}"


def find_index_problem(path: Path, *, nested: bool) -> str | None:
    """Return which shards of a ``model.safetensors.index.json`` are missing next to it.

    One of pickles counts only without safetensors, which vLLM prefers; one of a `nested` folder
    only if any of its shards is there: patterns left them out (``original/``).
    """
    if path.name.endswith(".bin.index.json") and any(path.parent.glob("*.safetensors")):
        return None
    try:
        shards = set(json.loads(path.read_text())["weight_map"].values())
        present = {file.name for file in path.parent.iterdir()}  # an index may name 400,000
        missing = sorted(name for name in shards if not _is_there(path.parent, name, present))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "no weight_map"
    if not missing or (nested and len(missing) == len(shards)):
        return None
    return f"{len(missing)} of {len(shards)} shards absent: {missing[0]}"


def _is_there(folder: Path, name: str, present: set[str]) -> bool:
    """Return whether a shard is in `folder`, which has the names `present`; raises ValueError."""
    if len(name) > LONGEST_NAME:
        raise ValueError(name)
    return (name in present or "/" in name) and (folder / name).exists()

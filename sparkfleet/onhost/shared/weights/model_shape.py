"""The parts of a model: its configs, and its tensors from the headers of safetensors.

The answer of the program `weights/shape`: ``files`` has the texts of the small JSON files that say
what the model is, by name, those of the folders below it too; ``tensors`` has a row
``[name, dtype, dimensions, count, elements, bytes]`` for all tensors whose names differ in numbers
only (written ``#``), of the safetensors in the folder itself; ``drafts`` the same by name of each
folder below. A folder that does not exist has none. Only headers are read: eight bytes and the
length that they give.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

TEXTS = ("config.json", "hf_quant_config.json", "params.json", "adapter_config.json")
ADAPTERS = ("*/adapter_config.json", "*/*/adapter_config.json")
MAX_ADAPTERS = 100
LONGEST = 100_000_000  # bytes of a header; the format's own limit
MAX_DIMENSIONS = 16
MAX_NUMBER = 1 << 62
NUMBER = re.compile(r"(?<=[._])\d+(?=[._]|$)")


def read_shape(folder: Path) -> dict[str, Any]:
    """Return the answer for `folder`."""
    below = sorted(path.parent.name for path in folder.glob("*/config.json"))
    adapters = sorted(path for pattern in ADAPTERS for path in folder.glob(pattern))
    deeper = (str(path.relative_to(folder)) for path in adapters[:MAX_ADAPTERS])
    names = [*TEXTS, *(f"{name}/config.json" for name in below), *deeper]
    files = {name: read_small_text(folder / name) for name in names if (folder / name).is_file()}
    drafts = {name: read_tensor_rows(folder / name) for name in below}
    return {"files": files, "tensors": read_tensor_rows(folder), "drafts": drafts}


def read_small_text(path: Path) -> str:
    """Return the text of a small file."""
    return path.read_bytes().decode(errors="replace")


def read_tensor_rows(folder: Path) -> list[list[Any]]:
    """Return the rows of all safetensors in `folder`."""
    headers = [read_safetensors_header(path) for path in sorted(folder.glob("*.safetensors"))]
    return group_tensors(headers)


def read_safetensors_header(path: Path) -> dict[str, Any]:
    """Return the header of a safetensors file; an empty one where it cannot be read."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        data = file.read(length) if length <= LONGEST else b""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {name: tensor for name, tensor in content.items() if is_tensor(tensor)}


def is_tensor(tensor: Any) -> bool:
    """Return whether an entry of a header has the type, shape and place of a tensor."""
    if not isinstance(tensor, dict) or not isinstance(tensor.get("dtype"), str):
        return False
    shape, ends = tensor.get("shape"), tensor.get("data_offsets")
    if not isinstance(shape, list) or not isinstance(ends, list) or len(ends) != 2:
        return False
    numbers = (*shape, *ends)
    return len(shape) <= MAX_DIMENSIONS and all(
        type(value) is int and 0 <= value <= MAX_NUMBER for value in numbers
    )


def group_tensors(headers: list[dict[str, Any]]) -> list[list[Any]]:
    """Return a row for all tensors of `headers` whose names differ in numbers only."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    for tree in headers:
        for name, tensor in tree.items():
            if name == "__metadata__":
                continue
            elements = 1
            for size in tensor["shape"]:
                elements *= size
            first, last = tensor["data_offsets"]
            key = (NUMBER.sub("#", name), tensor["dtype"], len(tensor["shape"]))
            sums = groups.setdefault(key, [0, 0, 0])
            for at, value in enumerate((1, elements, last - first)):
                sums[at] += value
    return [[*key, *sums] for key, sums in sorted(groups.items())]

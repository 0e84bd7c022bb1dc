"""Tell what the model in a folder of this host is made of: its configs and its tensors.

Request: ``folder`` (``~`` is this user's home), or ``root``, ``model`` and ``revision``: the
weights folder, and a model below it. Answer: ``files`` has the texts of the small JSON files that
say what the model is, by name, those of folders right below it too; ``tensors`` has a row ``[name,
dtype, dimensions, count, elements, bytes]`` for all tensors whose names differ in numbers only
(written ``#``), of the safetensors right in the folder; ``drafts`` the same by name of each folder
below. A folder that is not there has none. Only headers are read: eight bytes and what they
announce.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from sparkfleet.onhost.parts.paths import RefusedError, checked

TEXTS = ("config.json", "hf_quant_config.json", "params.json")
LONGEST = 100_000_000  # bytes of a header; the format's own limit
NUMBER = re.compile(r"(?<=[._])\d+(?=[._]|$)")


def read(folder: Path) -> dict[str, Any]:
    """Return the answer for `folder`."""
    below = sorted(path.parent.name for path in folder.glob("*/config.json"))
    names = [*TEXTS, *(f"{name}/config.json" for name in below)]
    files = {name: text(folder / name) for name in names if (folder / name).is_file()}
    drafts = {name: tensors(folder / name) for name in below}
    return {"files": files, "tensors": tensors(folder), "drafts": drafts}


def find(root: Path, model: str, revision: str) -> Path:
    """Return the folder of a bundle, or of a snapshot in the classic cache layout."""
    folder = checked(root, model)
    if folder.is_dir():
        return folder
    home = root / "hub" / ("models--" + model.replace("/", "--"))
    ref = checked(home / "refs", revision)
    commit = text(ref).strip() if ref.is_file() else revision
    return checked(home / "snapshots", commit)


def text(path: Path) -> str:
    """Return the text of a small file."""
    return path.read_bytes().decode(errors="replace")


def tensors(folder: Path) -> list[list[Any]]:
    """Return the rows of all safetensors in `folder`."""
    headers = [header(path) for path in sorted(folder.glob("*.safetensors"))]
    return rows(headers)


def header(path: Path) -> dict[str, Any]:
    """Return the header of a safetensors file; an empty one where it cannot be read."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        data = file.read(length) if length <= LONGEST else b""
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def rows(headers: list[dict[str, Any]]) -> list[list[Any]]:
    """Return a row for all tensors of `headers` whose names differ in numbers only."""
    found: dict[tuple[str, str, int], list[int]] = {}
    for tree in headers:
        for name, tensor in tree.items():
            if name == "__metadata__":
                continue
            elements = 1
            for size in tensor["shape"]:
                elements *= size
            first, last = tensor["data_offsets"]
            key = (NUMBER.sub("#", name), tensor["dtype"], len(tensor["shape"]))
            sums = found.setdefault(key, [0, 0, 0])
            for at, value in enumerate((1, elements, last - first)):
                sums[at] += value
    return [[*key, *sums] for key, sums in sorted(found.items())]


if __name__ == "__main__":
    asked = json.loads(sys.stdin.readline())
    try:
        if "folder" in asked:
            place = Path(asked["folder"]).expanduser()
        else:
            place = find(Path(asked["root"]).expanduser(), asked["model"], asked["revision"])
        print(json.dumps(read(place)))
    except RefusedError as refusal:
        print(json.dumps(refusal.answer()))

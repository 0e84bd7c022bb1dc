"""Report what the model in a folder of this host is made of: its configs and its tensors.

Request: ``folder`` (``~`` is this user's home), or ``root``, ``model`` and ``revision``: the
weights folder, and a model below it. Answer: see `shared/weights/model_shape.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sparkfleet.onhost.shared.paths import RefusedError, expand_folder, join_relative_path
from sparkfleet.onhost.shared.weights.model_shape import read_shape, read_small_text


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    try:
        if "folder" in request:
            folder = expand_folder(request["folder"])
        else:
            root = expand_folder(request["root"])
            folder = find_model_folder(root, request["model"], request["revision"])
        print(json.dumps(read_shape(folder)))
    except RefusedError as refusal:
        print(json.dumps(refusal.answer()))


def find_model_folder(root: Path, model: str, revision: str) -> Path:
    """Return the folder of a bundle, or of a snapshot in the classic cache layout."""
    folder = join_relative_path(root, model)
    if folder.is_dir():
        return folder
    home = root / "hub" / ("models--" + model.replace("/", "--"))
    ref = join_relative_path(home / "refs", revision)
    commit = read_small_text(ref).strip() if ref.is_file() else revision
    return join_relative_path(home / "snapshots", commit)


if __name__ == "__main__":
    main()

"""Look inside an image, from a container of it; run by its own Python, with nothing imported.

Answers one JSON object: ``packages`` (versions by name), ``programs`` on its PATH, ``nodes``
(whether vLLM spans hosts without Ray), ``nccl_conf`` (NCCL's own files), ``gpus``.

vLLM is not imported, which takes 45 s: `vllm --version` prints the version of the same metadata,
and its `--nnodes` is looked for in its source, since 0.26 hides it in the help (facts 2.3).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

PACKAGES = ("vllm", "ray", "torch", "transformers", "flashinfer-python", "nvidia-nccl-cu13")
PROGRAMS = ("vllm", "ray", "bash", "python3", "nvidia-smi")
NCCL_FILES = ("/etc/nccl.conf", "~/.nccl.conf")


def main() -> None:
    """Answer."""
    answer = {
        "packages": dict(filter(None, map(package, PACKAGES))),
        "programs": [name for name in PROGRAMS if shutil.which(name)],
        "nodes": spans_nodes(),
        "nccl_conf": "".join(map(read, NCCL_FILES)),
        "gpus": gpus(),
    }
    print(json.dumps(answer))


def package(name: str) -> tuple[str, str] | None:
    """Return a distribution's name and version, or None."""
    try:
        return name, importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def spans_nodes() -> bool:
    """Return whether vLLM has the option `--nnodes`."""
    found = importlib.util.find_spec("vllm")
    folders = (found.submodule_search_locations if found else None) or []
    return any("nnodes" in read(Path(folder) / "engine" / "arg_utils.py") for folder in folders)


def read(path: str | Path) -> str:
    """Return the text of a file, "" where there is none."""
    try:
        return Path(path).expanduser().read_text(errors="replace")
    except OSError:
        return ""


def gpus() -> str:
    """Return what `nvidia-smi -L` lists, or what it says instead."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


main()

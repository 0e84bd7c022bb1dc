"""Look inside an image, from a container of it; run by its own Python, with nothing imported.

Answers one JSON object: ``packages`` (versions by name), ``programs`` on its PATH, ``nodes``
(whether vLLM spans hosts without Ray), ``options`` of `vllm serve`, ``variables`` of the
environment that vLLM reads, ``nccl_conf`` (NCCL's own files), ``gpus``.

vLLM is not imported, which takes 45 s: `vllm --version` prints the version of the same metadata,
and its options are looked for in its source, since 0.26 hides `--nnodes` in the help (facts 2.3).
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("vllm", "ray", "torch", "transformers", "flashinfer-python", "nvidia-nccl-cu13")
PROGRAMS = ("vllm", "ray", "bash", "python3", "nvidia-smi")
ENGINE = "engine/arg_utils.py"
SERVERS, SERVER = "entrypoints/**/cli_args.py", "FrontendArgs"
NCCL_FILES = ("/etc/nccl.conf", "~/.nccl.conf")


def main() -> None:
    """Answer."""
    found = importlib.util.find_spec("vllm")
    places = found.submodule_search_locations if found else None
    folder = Path(next(iter(places or ["/nowhere"])))
    answer = {
        "packages": dict(filter(None, map(package, PACKAGES))),
        "programs": [name for name in PROGRAMS if shutil.which(name)],
        "nodes": "nnodes" in read(folder / ENGINE),
        "options": sorted(options(folder)),
        "variables": sorted(variables(folder)),
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


def options(folder: Path) -> set[str]:
    """Return the options of `vllm serve`, without dashes; none where its source has changed shape.

    Most are written out where they are added, the server's are fields of a class.
    """
    servers = [path for path in folder.glob(SERVERS) if SERVER in read(path)]
    found = {name for path in (folder / ENGINE, *servers) for name in written(parsed(path))}
    return found if servers and (folder / ENGINE).exists() else set()


def written(tree: ast.AST) -> Iterator[str]:
    """Yield the long options that a module of vLLM names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch("--[a-z][a-z0-9_-]+", node.value):
                yield node.value[2:].replace("_", "-")
        elif isinstance(node, ast.ClassDef) and node.name in (SERVER, f"Base{SERVER}"):
            fields = [line.target for line in node.body if isinstance(line, ast.AnnAssign)]
            yield from (one.id.replace("_", "-") for one in fields if isinstance(one, ast.Name))


def variables(folder: Path) -> set[str]:
    """Return the names of vLLM's own table of environment variables."""
    found = set()
    for node in ast.walk(parsed(folder / "envs.py")):
        if isinstance(node, ast.Dict):
            keys = [getattr(key, "value", None) for key in node.keys]
            found |= {key for key in keys if isinstance(key, str) and key.startswith("VLLM_")}
    return found


def parsed(path: Path) -> ast.AST:
    """Return the syntax tree of a file, an empty one for what this Python cannot read."""
    try:
        return ast.parse(read(path))
    except SyntaxError:
        return ast.parse("")


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

"""Look inside an image, from a container of it; run by its own Python, with nothing imported.

Answers one JSON object: ``packages`` (versions by name), ``programs`` on its PATH, ``nodes``
(whether vLLM spans hosts without Ray), ``options`` of `vllm serve`, ``values`` of those options
that take one of a list, ``variables`` of the environment that vLLM reads, ``nccl_conf`` (NCCL's own
files), ``gpus``.

vLLM is not imported, which takes 45 s: `vllm --version` prints the version of the same metadata,
and its options are looked for in its source, since 0.26 hides `--nnodes` in the help.
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
SERVERS = "entrypoints/**/cli_args.py"
SERVER = "FrontendArgs"
BACKENDS = ("AttentionBackendEnum", "_Backend")
LITERALS = {  # the option, and the name that its list has in vLLM's source
    "kv-cache-dtype": ("config/cache.py", "CacheDType"),
    "load-format": ("model_executor/model_loader/__init__.py", "LoadFormats"),
    "moe-backend": ("config/kernel.py", "MoEBackend"),
    "quantization": ("model_executor/layers/quantization/__init__.py", "QuantizationMethods"),
}
PARSERS = {"tool-call-parser": "**/tool_parsers/*.py", "reasoning-parser": "reasoning/*.py"}
REGISTRY = re.compile("_(TOOL|REASONING)_PARSERS_TO_REGISTER")
NCCL_FILES = ("/etc/nccl.conf", "~/.nccl.conf")


def main() -> None:
    """Answer."""
    spec = importlib.util.find_spec("vllm")
    places = spec.submodule_search_locations if spec else None
    folder = Path(next(iter(places or ["/nowhere"])))
    answer = {
        "packages": dict(filter(None, map(find_package_version, PACKAGES))),
        "programs": [name for name in PROGRAMS if shutil.which(name)],
        "nodes": "nnodes" in read_text_or_empty(folder / ENGINE),
        "options": sorted(list_serve_options(folder)),
        "values": {name: sorted(found) for name, found in list_option_values(folder).items()},
        "variables": sorted(list_vllm_variables(folder)),
        "nccl_conf": "".join(map(read_text_or_empty, NCCL_FILES)),
        "gpus": query_gpu_list(),
    }
    print(json.dumps(answer))


def find_package_version(name: str) -> tuple[str, str] | None:
    """Return a distribution's name and version, or None."""
    try:
        return name, importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def list_serve_options(folder: Path) -> set[str]:
    """Return the options of `vllm serve`, without dashes; none where its source has changed shape.

    Most are written out where they are added, the server's are fields of a class.
    """
    servers = [path for path in folder.glob(SERVERS) if SERVER in read_text_or_empty(path)]
    names = {
        name
        for path in (folder / ENGINE, *servers)
        for name in find_long_options(parse_python_file(path))
    }
    return names if servers and (folder / ENGINE).exists() else set()


def find_long_options(tree: ast.AST) -> Iterator[str]:
    """Yield the long options that a module of vLLM names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch("--[a-z][a-z0-9_-]+", node.value):
                yield node.value[2:].replace("_", "-")
        elif isinstance(node, ast.ClassDef) and node.name in (SERVER, f"Base{SERVER}"):
            fields = [line.target for line in node.body if isinstance(line, ast.AnnAssign)]
            yield from (
                field.id.replace("_", "-") for field in fields if isinstance(field, ast.Name)
            )


def list_option_values(folder: Path) -> dict[str, set[str]]:
    """Return the values of each option that takes one of a list; none where no list was found."""
    lists = {"attention-backend": list_attention_backends(folder)}
    for option, (file, name) in LITERALS.items():
        lists[option] = list_literal_values(parse_python_file(folder / file), name)
    for option, files in PARSERS.items():
        trees = map(parse_python_file, folder.glob(files))
        lists[option] = {name for tree in trees for name in find_registered_parsers(tree)}
    return {option: found for option, found in lists.items() if found}


def list_attention_backends(folder: Path) -> set[str]:
    """Return the members of vLLM's enumeration of attention backends."""
    files = (
        folder / "v1/attention/backends/registry.py",
        folder / "attention/backends/registry.py",
    )
    for node in (node for file in files for node in ast.walk(parse_python_file(file))):
        if isinstance(node, ast.ClassDef) and node.name in BACKENDS:
            targets = [line.targets[0] for line in node.body if isinstance(line, ast.Assign)]
            return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()


def list_literal_values(tree: ast.AST, name: str) -> set[str]:
    """Return the texts of ``name = Literal[...]``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return set(find_texts(node.value))
    return set()


def find_registered_parsers(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module registers, in a table or by a decorator."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and REGISTRY.fullmatch(getattr(node.targets[0], "id", "")):
            yield from (text for key in getattr(node.value, "keys", ()) for text in find_texts(key))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "register_module":
            named = [word.value for word in node.keywords if word.arg == "name"]
            yield from (text for value in [*node.args[:1], *named] for text in find_texts(value))


def find_texts(tree: ast.AST) -> Iterator[str]:
    """Yield every text below a node."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def list_vllm_variables(folder: Path) -> set[str]:
    """Return the names of vLLM's own table of environment variables."""
    names = set()
    for node in ast.walk(parse_python_file(folder / "envs.py")):
        if isinstance(node, ast.Dict):
            keys = [getattr(key, "value", None) for key in node.keys]
            names |= {key for key in keys if isinstance(key, str) and key.startswith("VLLM_")}
    return names


def parse_python_file(path: Path) -> ast.AST:
    """Return the syntax tree of a file, an empty one for what this Python cannot read."""
    try:
        return ast.parse(read_text_or_empty(path))
    except SyntaxError:
        return ast.parse("")


def read_text_or_empty(path: str | Path) -> str:
    """Return the text of a file, "" where there is none."""
    try:
        return Path(path).expanduser().read_text(errors="replace")
    except OSError:
        return ""


def query_gpu_list() -> str:
    """Return what `nvidia-smi -L` lists, or what it says instead."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


if __name__ == "__main__":
    main()

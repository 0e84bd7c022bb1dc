"""Look inside an image, from a container of it; run by its own Python, with nothing imported.

Answers one JSON object: ``packages`` (versions by name), ``programs`` on its PATH, ``nodes``
(whether vLLM spans hosts without Ray), ``options`` of `vllm serve`, ``types`` of those whose text
it converts (int, size, number, json, json-or-text, or flag for none), ``values`` of those that take
one of a list, ``variables`` of the environment that vLLM reads, ``nccl_conf`` (NCCL's own files),
``gpus``.

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
from typing import NamedTuple

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
FLAG_ACTIONS = {"store_true", "store_false", "BooleanOptionalAction"}
SERVER_MODULES = "vllm.entrypoints."
CONFIGS = "config/*.py"
SIZES = "human_readable_int_args"  # vLLM's list of the integers that may be written as 64K
SIZE_FIELDS = {"max_model_len"}  # by a branch of its own
NCCL_FILES = ("/etc/nccl.conf", "~/.nccl.conf")


def main() -> None:
    """Answer."""
    spec = importlib.util.find_spec("vllm")
    places = spec.submodule_search_locations if spec else None
    folder = Path(next(iter(places or ["/nowhere"])))
    types, choices = list_option_types(folder)
    answer = {
        "packages": dict(filter(None, map(find_package_version, PACKAGES))),
        "programs": [name for name in PROGRAMS if shutil.which(name)],
        "nodes": "nnodes" in read_text_or_empty(folder / ENGINE),
        "options": sorted(list_serve_options(folder)),
        "types": types,
        "values": {
            name: sorted(found, key=build_sort_key)
            for name, found in {**choices, **list_option_values(folder)}.items()
        },
        "variables": sorted(list_vllm_variables(folder)),
        "nccl_conf": "".join(map(read_text_or_empty, NCCL_FILES)),
        "gpus": query_gpu_list(),
    }
    print(json.dumps(answer))


def build_sort_key(text: str) -> tuple[int, str]:
    """Return what sorts numbers by their size, before words."""
    return (int(text), "") if text.isdecimal() else (2**63, text)


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


def list_option_types(folder: Path) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Return how vLLM reads the text of its options, and the closed lists of values among them.

    vLLM makes the options of its engine from annotated fields of its configuration classes, as
    ``_compute_kwargs`` in its arg_utils.py does; those annotations are read here.
    """
    paths = [*folder.glob(CONFIGS), *folder.glob(SERVERS), folder / ENGINE]
    trees = [parse_python_file(path) for path in sorted(paths)]
    imported = {path for tree in trees for path in find_imported_files(tree, folder)}
    named = [*map(parse_python_file, sorted(imported)), *trees]
    notes = SourceTypes(
        aliases=dict(alias for tree in named for alias in find_type_aliases(tree)),
        fields=dict(field for tree in trees for field in find_annotated_fields(tree)),
        dicts={name for tree in trees for name in find_dict_classes(tree)},
    )
    sizes = SIZE_FIELDS | {name for tree in trees for name in find_listed_fields(tree, SIZES)}
    types: dict[str, str] = {}
    choices: dict[str, set[str]] = {}
    for option, annotation in find_option_annotations(trees, notes):
        found = expand_annotation(annotation, notes)
        kind = choose_option_type(found)
        if kind == "choice":
            choices[option] = {str(value) for value in found["Literal"]}
        elif kind:
            is_size = kind == "int" and option.replace("-", "_") in sizes
            types[option] = "size" if is_size else kind
    return types, choices


class SourceTypes(NamedTuple):
    """Meanings of names in annotations; `fields` are annotations by class and field."""

    aliases: dict[str, ast.expr]
    fields: dict[tuple[str, str], ast.expr]
    dicts: set[str]


def find_imported_files(tree: ast.AST, folder: Path) -> Iterator[Path]:
    """Yield the files from which a module of vLLM's servers takes names of types."""
    for node in ast.iter_child_nodes(tree):
        module = str(getattr(node, "module", "")) if isinstance(node, ast.ImportFrom) else ""
        names = node.names if isinstance(node, ast.ImportFrom) else []
        if module.startswith(SERVER_MODULES) and any(name.name[:1].isupper() for name in names):
            yield folder.joinpath(*module.split(".")[1:]).with_suffix(".py")


def find_type_aliases(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names of a module that stand for a type: ``Name = Literal[...]``, or a union."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Subscript | ast.BinOp):
                yield target.id, node.value


def find_annotated_fields(tree: ast.AST) -> Iterator[tuple[tuple[str, str], ast.expr]]:
    """Yield the class, the name and the annotation of the fields of a module's classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    yield (node.name, line.target.id), line.annotation


def find_dict_classes(tree: ast.AST) -> Iterator[str]:
    """Yield the classes of a module that are dictionaries."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = [getattr(base, "value", base) for base in node.bases]
            if any(getattr(base, "id", "") == "dict" for base in bases):
                yield node.name


def find_listed_fields(tree: ast.AST, name: str) -> set[str]:
    """Return the texts of ``name = {...}`` anywhere in a module."""
    return {
        text
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name
        for text in find_texts(node.value)
    }


def find_option_annotations(
    trees: list[ast.AST], notes: SourceTypes
) -> Iterator[tuple[str, ast.expr]]:
    """Yield each option with the annotation of its field, or with the type that is written out."""
    for (owner, field), annotation in notes.fields.items():
        if owner in (SERVER, f"Base{SERVER}"):
            yield field.replace("_", "-"), annotation
    for tree in trees:
        owners = dict(find_keyword_owners(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                names = [text for word in node.args for text in find_texts(word)]
                written = find_written_type(node, owners, notes)
                if written is not None:
                    long = (name[2:] for name in names if name.startswith("--"))
                    yield from ((name.replace("_", "-"), written) for name in long)


def find_written_type(
    node: ast.Call, owners: dict[str, tuple[str, str]], notes: SourceTypes
) -> ast.expr | None:
    """Return the annotation from which a call of add_argument takes its keywords."""
    words = {word.arg: word.value for word in node.keywords}
    choices = words.get("choices")
    if isinstance(choices, ast.List):
        return ast.Subscript(ast.Name("Literal"), ast.Tuple(choices.elts))
    if isinstance(choices, ast.Call) and choices.args:  # get_args(Name)
        return choices.args[0]
    written = words.get("type")
    if isinstance(written, ast.Name):
        return written
    action = words.get("action")
    if action is not None and FLAG_ACTIONS & {*find_texts(action), getattr(action, "attr", "")}:
        return ast.Name("bool")
    return notes.fields.get(resolve_keywords(words[None], owners)) if None in words else None


def find_keyword_owners(tree: ast.AST) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the variables that hold ``get_kwargs(Class)``, or the part of them for one field."""
    owners: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            owner = resolve_keywords(node.value, owners)
            if owner[0]:
                owners[target.id] = owner
                yield target.id, owner


def resolve_keywords(node: ast.expr, owners: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """Return the class and the field ("" for all) that an expression takes its keywords from."""
    if isinstance(node, ast.Name):
        return owners.get(node.id, ("", ""))
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "get_kwargs" and node.args:
        return getattr(node.args[0], "id", ""), ""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return resolve_keywords(node.value, owners)[0], str(node.slice.value)
    if isinstance(node, ast.Dict) and None in node.keys:  # {**keywords, "default": None}
        return resolve_keywords(node.values[node.keys.index(None)], owners)
    return "", ""


def expand_annotation(node: ast.expr, notes: SourceTypes) -> dict[str, list[object]]:
    """Return the types that a union is made of, by name, with the values of a ``Literal``."""
    if isinstance(node, ast.BinOp):
        return expand_annotation(node.left, notes) | expand_annotation(node.right, notes)
    if isinstance(node, ast.Constant):
        text = node.value if isinstance(node.value, str) else ""
        return expand_annotation(ast.parse(text, mode="eval").body, notes) if text else {"None": []}
    if isinstance(node, ast.Subscript):
        return expand_generic(node, notes)
    name = getattr(node, "id", "") or getattr(node, "attr", "")
    if name in notes.aliases:
        return expand_annotation(notes.aliases[name], notes)
    if name in notes.dicts:
        return {"dict": []}
    return {"class" if any(owner == name for owner, _ in notes.fields) else name: []}


def expand_generic(node: ast.Subscript, notes: SourceTypes) -> dict[str, list[object]]:
    """Return the same for a type with parts in brackets."""
    name = getattr(node.value, "id", "") or getattr(node.value, "attr", "")
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        values = [part.value for part in parts if isinstance(part, ast.Constant)]
        nested = [expand_annotation(part, notes) for part in parts if isinstance(part, ast.Name)]
        return {name: [*values, *(value for part in nested for value in part.get(name, ()))]}
    if name == "Annotated":
        return expand_annotation(parts[0], notes)
    if name in ("Optional", "Union"):
        found = [expand_annotation(part, notes) for part in parts]
        return {key: value for part in found for key, value in part.items()}
    return {name: []}


def choose_option_type(found: dict[str, list[object]]) -> str:
    """Return the conversion that vLLM chooses for the types of a field; "" for plain text."""
    if "class" in found:
        return "json"
    if {"bool", "tuple", "list", "set"} & set(found):
        return "flag" if set(found) <= {"bool", "None"} else ""
    if "Literal" in found:
        return "" if "str" in found else "choice"
    if "int" in found or "float" in found:
        return "int" if "int" in found else "number"
    if "dict" in found:
        return "json" if set(found) <= {"dict", "None"} else "json-or-text"
    return ""


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

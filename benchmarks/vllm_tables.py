"""Write the tables of vLLM's options, their values, variables and architectures by release.

    python benchmarks/vllm_tables.py FOLDER

FOLDER holds vLLM's source distributions, each unpacked into a folder that is named by its
version. What a release has is found by `onhost/deployment/probe.py`, which also looks into images.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "sparkfleet"
TABLES = PACKAGE / "vllm" / "tables"
REGISTRY = "vllm/model_executor/models/registry.py"
HEADER = """\
# {what}, by release: its name, the first of these releases that has it, the last one or -.
# From the source distributions of vLLM; written by benchmarks/vllm_tables.py.
releases {releases}
"""


def probe(folder: Path) -> dict[str, set[str]]:
    """Return what the release in `folder` has, by the name of its table."""
    done = subprocess.run(
        [sys.executable, PACKAGE / "onhost" / "deployment" / "probe.py"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    found = {name: set(answer[name]) for name in ("options", "variables")}
    values = {f"{name}={value}" for name, listed in answer["values"].items() for value in listed}
    return {**found, "values": values, "architectures": architectures(folder / REGISTRY)}


def architectures(path: Path) -> set[str]:
    """Return the keys of the registry's tables: names of models' classes."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple):
                    found.add(str(key.value))
    return found


def rows(name: str, by_release: dict[str, dict[str, set[str]]]) -> list[str]:
    """Return the lines of one table: a line for each time that an entry came and went."""
    lines = []
    open_since = {}
    before = ""
    for release, tables in by_release.items():
        gone = sorted(open_since.keys() - tables[name])
        lines += [f"{entry} {open_since.pop(entry)} {before}" for entry in gone]
        open_since |= dict.fromkeys(tables[name] - open_since.keys(), release)
        before = release
    return sorted(lines + [f"{entry} {first} -" for entry, first in open_since.items()])


def main() -> None:
    """Write all tables."""
    folders = [path for path in Path(sys.argv[1]).iterdir() if path.is_dir()]
    folders.sort(key=lambda path: tuple(map(int, path.name.split("."))))
    by_release = {folder.name: probe(folder) for folder in folders}
    TABLES.mkdir(exist_ok=True)
    for name in ("options", "values", "variables", "architectures"):
        lines = rows(name, by_release)
        head = HEADER.format(what=name.capitalize(), releases=" ".join(by_release))
        (TABLES / f"{name}.txt").write_text(head + "\n".join(lines) + "\n")
        print(f"{name}: {len(lines)}")


if __name__ == "__main__":
    main()

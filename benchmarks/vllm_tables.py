"""Write the tables of vLLM's options, their values, keys, variables and architectures by release.

The types of options are those of the newest release; a file of an older one is kept.

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
from typing import Any

PACKAGE = Path(__file__).parents[1] / "sparkfleet"
TABLES = PACKAGE / "vllm" / "tables"
REGISTRY = "vllm/model_executor/models/registry.py"
HEADER = """\
# {what}, by release: its name, the first of these releases that has it, the last one or -.
# From the source distributions of vLLM; written by benchmarks/vllm_tables.py.
releases {releases}
"""


BY_RELEASE = (
    "attention-backend",
    "kv-cache-dtype",
    "load-format",
    "moe-backend",
    "quantization",
    "reasoning-parser",
    "tool-call-parser",
)  # in values.txt
CONFIGS = {  # options that take a JSON object, and the class in vllm/config that has its keys
    "attention-config": "AttentionConfig",
    "aux-output-config": "AuxOutputConfig",
    "compilation-config": "CompilationConfig",
    "ec-manager-config": "EncoderCacheManagerConfig",
    "ec-transfer-config": "ECTransferConfig",
    "engram-config": "EngramConfig",
    "eplb-config": "EPLBConfig",
    "fault-tolerance-config": "FaultToleranceConfig",
    "ir-op-priority": "IrOpPriorityConfig",
    "kernel-config": "KernelConfig",
    "kv-events-config": "KVEventsConfig",
    "kv-transfer-config": "KVTransferConfig",
    "pooler-config": "PoolerConfig",
    "profiler-config": "ProfilerConfig",
    "reasoning-config": "ReasoningConfig",
    "speculative-config": "SpeculativeConfig",
    "structured-outputs-config": "StructuredOutputsConfig",
    "watchdog-config": "WatchdogConfig",
    "weight-transfer-config": "WeightTransferConfig",
}
MODALITIES = {  # of --limit-mm-per-prompt, and the class in vllm/config/multimodal.py
    "audio": "AudioDummyOptions",
    "image": "ImageDummyOptions",
    "video": "VideoDummyOptions",
}
WHOLE = {"LoadConfig", "ModelConfig", "ParallelConfig"}  # that vLLM puts in, not the user
TYPES = """\
# How vLLM converts the text of its options, and the values of those with a closed list.
# From the source of one release of vLLM; written by benchmarks/vllm_tables.py.
release {release}
"""


def ask(folder: Path) -> dict[str, Any]:
    """Return what the probe finds in a release."""
    done = subprocess.run(
        [sys.executable, PACKAGE / "onhost" / "deployment" / "probe.py"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def probe(folder: Path) -> dict[str, set[str]]:
    """Return what the release in `folder` has, by the name of its table."""
    answer = ask(folder)
    found = {name: set(answer[name]) for name in ("options", "variables")}
    values = {f"{name}={value}" for name in BY_RELEASE for value in answer["values"].get(name, ())}
    others = {"architectures": architectures(folder / REGISTRY), "keys": keys(folder)}
    return {**found, "values": values, **others}


def architectures(path: Path) -> set[str]:
    """Return the keys of the registry's tables: names of models' classes."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple):
                    found.add(str(key.value))
    return found


def keys(folder: Path) -> set[str]:
    """Return the keys of options that take a JSON object: ``option=key`` and ``option=key.key``."""
    fields = config_fields(folder / "vllm" / "config")
    found = set()
    for option, name in CONFIGS.items():
        for key, inner in fields.get(name, {}).items():
            nested = () if inner in WHOLE else fields[inner]
            found |= {f"{option}={key}", *(f"{option}={key}.{each}" for each in nested)}
    for modality, name in MODALITIES.items():
        found |= {f"limit-mm-per-prompt={modality}.{key}" for key in fields.get(name, {})}
        found.add(f"limit-mm-per-prompt={modality}")
    return found


def config_fields(folder: Path) -> dict[str, dict[str, str]]:
    """Return the fields of each class: their name, and the class of their value, "" for none."""
    classes = {"": ast.ClassDef("", [], [], [], [])}
    for path in sorted(folder.glob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text()))
        classes |= {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
    return {name: class_fields(node, classes) for name, node in classes.items()}


def class_fields(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> dict[str, str]:
    """Return the public fields of a class and of those that it extends."""
    found: dict[str, str] = {}
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            found |= class_fields(classes[base.id], classes)
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            names = {each.id for each in ast.walk(field.annotation) if isinstance(each, ast.Name)}
            inner = sorted(name for name in names & classes.keys() if name.endswith("Config"))
            if not field.target.id.startswith("_"):
                found[field.target.id] = inner[0] if inner else ""
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


def write_types(folder: Path, release: str) -> None:
    """Write the table of types of one release."""
    answer = ask(folder)
    rows = [f"{name} {kind}" for name, kind in answer["types"].items()]
    closed = {name: values for name, values in answer["values"].items() if name not in BY_RELEASE}
    rows += [f"{name} choice {' '.join(values)}" for name, values in closed.items()]
    head = TYPES.format(release=release)
    (TABLES / "types.txt").write_text(head + "\n".join(sorted(rows)) + "\n")


def main() -> None:
    """Write all tables."""
    folders = [path for path in Path(sys.argv[1]).iterdir() if path.is_dir()]
    folders.sort(key=lambda path: tuple(map(int, path.name.split("."))))
    by_release = {folder.name: probe(folder) for folder in folders}
    TABLES.mkdir(exist_ok=True)
    for name in ("options", "values", "variables", "architectures", "keys"):
        lines = rows(name, by_release)
        head = HEADER.format(what=name.capitalize(), releases=" ".join(by_release))
        (TABLES / f"{name}.txt").write_text(head + "\n".join(lines) + "\n")
        print(f"{name}: {len(lines)}")
    write_types(folders[-1], folders[-1].name)


if __name__ == "__main__":
    main()

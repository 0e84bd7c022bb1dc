"""The stand-in engine: put on lab hosts, made to misbehave, and served by `cluster.up`.

It stands in for vLLM and Ray alone, whose real starts take a minute: README.md says what it does
as they do. Hosts, sshd, processes, files, ports and signals are the lab's real ones.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sparkfleet.lab import state as states
from sparkfleet.lab.engine import containers
from sparkfleet.lab.faults.steps import resolve_host_path
from sparkfleet.lab.fleet import LabFleet

ROOT = Path("/opt/standin")  # on every host
BEHAVIOUR = ROOT / "behaviour.json"
IMAGE = "sparkfleet-standin:1"
HERE = Path(__file__).parent
RECIPE = HERE / "recipe.yml"
RECORDED = HERE.parent / "outputs"
VERSIONS: Mapping[str, str] = {
    "vllm": "0.32.0",
    "ray": "2.60.0",
    "torch": "2.13.0+cpu",
    "transformers": "5.19.0",
}
PACKAGES = ROOT / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
COMMAND = f"#!{ROOT}/bin/python\nfrom standin.{{name}}_command import main\n\nmain()\n"
CLIENT = "from standin.ray_client import init, nodes\n"


def install(*hosts: str) -> None:
    """Put the engine on hosts of the lab that runs; one that is there is replaced."""
    for host in hosts:
        root = on(host, ROOT)
        shutil.rmtree(root, ignore_errors=True)
        packages = on(host, PACKAGES)
        shutil.copytree(HERE / "programs", packages / "standin")
        for log in RECORDED.glob("*.*"):
            if log.name.startswith(("ray-2.55-start", "vllm-")):
                (packages / "standin/logs").mkdir(exist_ok=True)
                shutil.copy(log, packages / "standin/logs")
        _python(root)
        _write(packages / "ray/__init__.py", CLIENT)
        _write(packages / "vllm/engine/arg_utils.py", "# --nnodes\n")
        _write(packages / "vllm/__init__.py", "")
        for name in ("ray", "vllm"):
            _write(root / "bin" / name, COMMAND.format(name=name), mode=0o755)
        for name, version in VERSIONS.items():
            version_on(host, name, version)


def version_on(host: str, package: str, version: str | None) -> None:
    """Give a package another version on a host, or none at all."""
    for old in on(host, PACKAGES).glob(f"{package}-*.dist-info"):
        shutil.rmtree(old)
    if version is not None:
        metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
        _write(on(host, PACKAGES) / f"{package}-{version}.dist-info/METADATA", metadata)


def misbehave(host: str, role: str, **behaviour: Any) -> None:
    """Let `role` (ray or serve) misbehave on a host: see programs/behaviour.py for how."""
    path = on(host, BEHAVIOUR)
    known = json.loads(path.read_text()) if path.exists() else {}
    _write(path, json.dumps({**known, role: behaviour}))


def behave(*hosts: str) -> None:
    """Let everything behave again."""
    for host in hosts:
        on(host, BEHAVIOUR).unlink(missing_ok=True)


def install_image(*hosts: str) -> str:
    """Give hosts whose Docker runs an image of the engine that `install` put there; return it."""
    state = states.load_lab_state()
    assert state is not None
    path, binds, *rest = containers.list_image_instructions(f"{ROOT}/bin")
    for host in hosts:
        containers.import_image(
            state.running[host],
            IMAGE,
            containers.build_image_layer(),
            instructions=[path, f"{binds}:{ROOT}", *rest],
        )
    return IMAGE


def inventory(lab: LabFleet, folder: Path, *, image: str = "", **variables: Any) -> Path:
    """Write, into `folder`, the lab's inventory with this engine; return the file.

    With the image of `install_image` it runs in containers. Next to it are two models, standin and
    other.
    """
    _model(folder / "other")
    content = yaml.safe_load(lab.inventory.read_text())
    docker = {"engine": "docker", "engine_image": image, "engine_image_source": "none"}
    content["sparks"]["vars"] |= {
        **(docker if image else {"engine_venv": str(ROOT)}),
        "weights_source": str(_model(folder / "standin")),
        "vllm_recipe": str(RECIPE),
        **variables,
    }
    path = folder / "inventory.yml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def make_large_model(folder: Path, size: int) -> Path:
    """Write a model with `size` bytes of weights, so that its transfer takes a while."""
    _model(folder)
    header = {"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.write(folder.name.encode().ljust(64))  # unlike every other
        file.truncate(8 + len(text) + size)
    return folder


def on(host: str, path: Path) -> Path:
    """Return the path by which this machine reaches a file of a host."""
    state = states.load_lab_state()
    assert state is not None
    return resolve_host_path(state.running[host], path)


def _python(root: Path) -> None:
    """Make a virtual environment of the Python that runs the tests."""
    python = Path(sys.executable).resolve()
    (root / "bin").mkdir(parents=True)
    for name in ("python", "python3"):
        (root / "bin" / name).symlink_to(python)
    _write(root / "pyvenv.cfg", f"home = {python.parent}\ninclude-system-site-packages = false\n")


def _model(folder: Path) -> Path:
    """Make a folder that has the files of a model: a config, a tokenizer, weights of one tensor."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 384,
        "torch_dtype": "bfloat16",
    }
    _write(folder / "config.json", json.dumps(config))
    _write(folder / "tokenizer.json", "{}")
    header = json.dumps({"w": {"dtype": "BF16", "shape": [8], "data_offsets": [0, 16]}}).encode()
    weights = len(header).to_bytes(8, "little") + header + bytes(16)
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)

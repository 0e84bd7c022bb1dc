"""The lab's tiny model: made here, by training, so that its answers can be checked."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import time
from importlib import resources
from pathlib import Path

from sparkfleet.errors import UsageError
from sparkfleet.lab.cache import hold_path_lock
from sparkfleet.lab.engine import install
from sparkfleet.lab.engine.install import Progress
from sparkfleet.lab.engine.kinds import CPU, EngineKind
from sparkfleet.lab.engine.smoke_answers import list_smoke_answers
from sparkfleet.lab.paths import CACHE

VERSION = 1  # of the folder; what is in it follows the sources, see `_made_of`
SEED = 17
MARKER = "made-of.txt"
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "2",  # the same everywhere: it decides the order of sums
    "OMP_WAIT_POLICY": "PASSIVE",  # threads that spin take twice as long on a busy machine
}


def locate_lab_model(kind: EngineKind = CPU) -> Path:
    """Return where the model of an engine lives, made or not: its tokenizer is the engine's."""
    return CACHE / (f"tiny-spark-{VERSION}" if kind == CPU else f"tiny-spark-gpu-{VERSION}")


def ensure_model(progress: Progress, kind: EngineKind = CPU) -> Path:
    """Make the model of an engine if it is not there, and return its folder.

    Training takes under a minute on two cores and ends with a check of every answer against the
    written files; a model that fails it is not published. Raises UsageError.
    """
    folder = locate_lab_model(kind)
    if _read_marker(folder) == _fingerprint_sources(kind):
        return folder
    install.check_engine(kind)
    with hold_path_lock(folder):
        if _read_marker(folder) != _fingerprint_sources(kind):
            _publish_model(folder, kind, progress)
    return folder


def _publish_model(folder: Path, kind: EngineKind, progress: Progress) -> None:
    progress(
        f"training the lab's model on {len(list_smoke_answers())} answers: under a "
        f"minute on idle cores"
    )
    began = time.monotonic()
    fresh = folder.with_suffix(".new")
    old = folder.with_suffix(".old")
    for left_over in (fresh, old):
        shutil.rmtree(left_over, ignore_errors=True)
    fresh.mkdir(mode=0o755)
    report = _run_training(fresh, kind)
    (fresh / MARKER).write_text(_fingerprint_sources(kind))
    for path in fresh.iterdir():
        path.chmod(0o644)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    progress(f"the model is ready after {time.monotonic() - began:.0f} s: {report}: {folder}")


def _run_training(folder: Path, kind: EngineKind) -> str:
    with resources.as_file(resources.files("sparkfleet.lab.engine") / "train.py") as program:
        done = subprocess.run(
            [str(kind.venv_path() / "bin/python"), "-I", str(program), str(folder)],
            input=json.dumps({"answers": list_smoke_answers(), "seed": SEED}),
            env={**ENVIRONMENT, "HOME": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        end = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise UsageError(f"the lab's model could not be trained:\n{end}")
    return done.stdout.strip()


def _fingerprint_sources(kind: EngineKind) -> str:
    """Return a fingerprint of everything that the model's content follows from."""
    program = (resources.files("sparkfleet.lab.engine") / "train.py").read_text()
    parts = (program, json.dumps(list_smoke_answers()), str(SEED), kind.read_lock())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _read_marker(folder: Path) -> str:
    try:
        return (folder / MARKER).read_text()
    except OSError:
        return ""

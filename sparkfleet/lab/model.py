"""The lab's tiny model: made here, by training, so that its answers can be checked."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
import time
from importlib import resources
from pathlib import Path

from sparkfleet.errors import UsageError
from sparkfleet.lab import engine
from sparkfleet.lab.engine import Progress
from sparkfleet.lab.paths import CACHE
from sparkfleet.lab.smoke_answers import answers

VERSION = 1  # of the folder; what is in it follows the sources, see `_made_of`
SEED = 17
MARKER = "made-of.txt"


def model_path() -> Path:
    """Return where the model lives, made or not."""
    return CACHE / f"tiny-spark-{VERSION}"


def make(progress: Progress) -> Path:
    """Make the model if it is not there, and return its folder.

    Training takes under a minute on two cores and ends with a check of every answer against the
    written files; a model that fails it is not published. Raises UsageError.
    """
    folder = model_path()
    if _marker(folder) == _made_of():
        return folder
    if not engine.is_complete():
        raise UsageError("the lab's engine is not installed", hint="invoke lab.engine")
    progress(f"training the lab's model on {len(answers())} answers, under a minute")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=".tiny-spark-") as fresh:
        said = _train(Path(fresh))
        (Path(fresh) / MARKER).write_text(_made_of())
        _publish(Path(fresh), folder)
    progress(f"the model is ready after {time.monotonic() - began:.0f} s: {said}: {folder}")
    return folder


def _train(folder: Path) -> str:
    with resources.as_file(resources.files("sparkfleet.lab") / "train.py") as program:
        done = subprocess.run(
            [str(engine.venv_path() / "bin/python"), "-I", str(program), str(folder)],
            input=json.dumps({"answers": answers(), "seed": SEED}),
            env={"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        end = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise UsageError(f"the lab's model could not be trained:\n{end}")
    return done.stdout.strip()


def _publish(fresh: Path, folder: Path) -> None:
    """Put a finished model in place: readable by all, and wholly there or not at all."""
    for path in (fresh, *fresh.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    old = folder.with_suffix(".old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    shutil.copytree(fresh, folder.with_suffix(".new"))
    folder.with_suffix(".new").rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _made_of() -> str:
    """Return a fingerprint of everything that the model's content follows from."""
    program = (resources.files("sparkfleet.lab") / "train.py").read_text()
    parts = (program, json.dumps(answers()), str(SEED), engine.lock())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _marker(folder: Path) -> str:
    try:
        return (folder / MARKER).read_text()
    except OSError:
        return ""

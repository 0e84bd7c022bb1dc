"""Starting child processes under the titles that the real ones have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).parents[1]
PYTHON = PACKAGES.parents[2] / "bin/python"  # sys.executable is empty under another title


def start(
    title: str, module: str, request: Mapping[str, Any], *, unlabelled: bool = False
) -> subprocess.Popen[bytes]:
    """Run `module` of this package as a process whose title is `title`.

    It reads its standard input to know when its parent has ended, and reports on its output.
    """
    own = {"PYTHONPATH": str(PACKAGES), "PYTHONHOME": sys.base_prefix}
    return subprocess.Popen(
        [title, "-m", f"{__package__}.{module}", json.dumps(request)],
        executable=PYTHON,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if module == "core" else None,
        env=own if unlabelled else {**os.environ, **own},
    )


def request() -> dict[str, Any]:
    """Return what the parent asked for."""
    found: dict[str, Any] = json.loads(sys.argv[1])
    return found

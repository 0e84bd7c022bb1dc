"""A weights folder on a filesystem that lacks locks or links is reported with a fix.

Reported of Lustre, CIFS and NFS: huggingface/huggingface_hub#2399 and #2038, huggingface/datasets
#2618. Such a filesystem is a Python here whose `flock` or `symlink` answers as theirs do.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sparkfleet import onhost

LACKING = """
import errno, fcntl, os, sys
def refuse(*_, **__):
    raise OSError({number}, os.strerror({number}))
{name} = refuse
exec(compile(open({program!r}).read(), "program", "exec"), {{"__name__": "__main__"}})
"""


def answer(program: str, request: dict[str, Any], name: str, number: int) -> dict[str, str]:
    """Return what an on-host program answers where the function `name` fails with `number`."""
    path = str(Path(onhost.__file__).parent / f"{program}.py")
    code = LACKING.format(number=number, name=name, program=path)
    words = [sys.executable, "-c", code]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(json.dumps(request) + "\n")
        running.stdin.flush()
        found: dict[str, str] = json.loads(running.stdout.readlines()[-1])
    return found


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP])
@pytest.mark.parametrize(
    ("program", "fix"),
    [
        ("deployment/lock", "set cluster_dir"),
        ("weights/receiver", "set weights_dir"),
        ("weights/place", "set weights_dir"),
    ],
)
def test_a_folder_without_locks_is_reported_with_its_fix(
    tmp_path: Path, number: int, program: str, fix: str
) -> None:
    holder = {"host": "a", "machine": "m", "pid": "1", "since": "s"}
    request: dict[str, Any] = {"root": str(tmp_path), "streams": [], "items": [], "texts": {}}
    request |= {"folders": [str(tmp_path)], "cluster": "default", "wait": 0, "holder": holder}
    found = answer(program, request, "fcntl.flock", number)
    assert os.strerror(number) in found["error"]
    assert fix in found["hint"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_a_folder_without_links_is_reported_with_its_fix(tmp_path: Path, number: int) -> None:
    (tmp_path / "blob").touch()
    item = {"path": "snapshots/c/config.json", "blob": "blob", "have": "blob"}
    request = {"root": str(tmp_path), "items": [item], "texts": {}}
    found = answer("weights/place", request, "os.symlink", number)
    assert found["error"] == f"cannot create links in {tmp_path}/snapshots/c"
    assert "set weights_dir" in found["hint"]

"""Look at one path on this host, or change it.

Request: ``{"do": ..., "path": ...}`` and what that action needs:

- look (``into``, ``sha256``, ``follow``): describe the path, and return the content of a file
  whose hash is not the expected one; with ``into`` at a folder, look at that name in it
- put (``sha256``, ``mode`` or null, ``validate``): write the payload there, whole or not at all;
  keep the owner; not if the command ``validate`` refuses it, in whose words %s is the new file
- make (``kind``: directory or file, ``mode`` or null): make it, with the folders above a directory
- mode (``mode``): change the permissions
- touch: set the time of the last change to now
- link (``target``): make a symbolic link
- remove: remove a file, a link or an empty folder

``~`` is this user's home.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import build_os_error_answer

MAX_KEPT = 16 * 1024 * 1024  # bytes of a file that is replaced; undo puts them back
PIECE = 1024 * 1024  # bytes a read
KINDS = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "directory"), (stat.S_ISLNK, "link"))


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.readline())
    path = Path(request["path"]).expanduser()
    handlers = {
        "look": describe_path,
        "put": write_payload,
        "make": create_path,
        "mode": change_mode,
        "touch": touch_path,
        "link": create_symlink,
        "remove": remove_path,
    }
    try:
        answer = handlers[request["do"]](path, request)
    except OSError as error:
        answer = build_os_error_answer(error, path)
        if isinstance(error, PermissionError):
            answer["hint"] = "to do it as root, set become: true"
    print(json.dumps(answer))


def describe_path(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Describe the file, folder or link at the path."""
    if request.get("into") and path.is_dir():
        path /= request["into"]
    if request["follow"]:
        path = Path(os.path.realpath(path))
    try:
        info = path.lstat()
    except FileNotFoundError:
        missing = [str(folder) for folder in (path, *path.parents) if not folder.exists()]
        return {"path": str(path), "kind": "absent", "missing": missing}
    kind = next((name for holds, name in KINDS if holds(info.st_mode)), "other")
    answer: dict[str, Any] = {
        "path": str(path),
        "kind": kind,
        "mode": format(stat.S_IMODE(info.st_mode), "04o"),
    }
    if kind == "link":
        answer["target"] = os.readlink(path)
    if kind == "directory":
        answer["empty"] = next(path.iterdir(), None) is None
    if kind == "file" and "sha256" in request:
        answer.update(read_differing_content(path, info.st_size, request["sha256"]))
    return answer


def read_differing_content(path: Path, size: int, expected: str | None) -> dict[str, Any]:
    """Return the hash of a file, and its bytes where the hash is not the wanted one."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            state.update(piece)
    answer: dict[str, Any] = {"sha256": state.hexdigest(), "size": size}
    if answer["sha256"] != expected and size <= MAX_KEPT:
        answer["content"] = base64.b64encode(path.read_bytes()).decode()
    return answer


def write_payload(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Write the payload to a new file next to the path, then rename it into place."""
    data = sys.stdin.buffer.read()
    if hashlib.sha256(data).hexdigest() != request["sha256"]:
        return {"error": f"{path}: the content arrived incomplete; nothing was changed"}
    if not path.parent.is_dir():
        hint = f"create it first: file: {{path: {path.parent}, state: directory}}"
        return {"error": f"folder {path.parent} not found", "hint": hint}
    before = path.stat() if path.exists() else None
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    new = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            os.fsync(file.fileno())
        apply_mode_and_owner(new, request["mode"], before)
        problem = run_validator(request["validate"], name)
        if problem:
            new.unlink()
            return {"error": f"{path}: validation failed, nothing was changed: {problem}"}
        new.replace(path)
    except BaseException:  # a signal too
        new.unlink()
        raise
    return {}


def run_validator(validate: list[str], name: str) -> str:
    """Return what a command says against the file `name`, "" if it accepts it."""
    if not validate:
        return ""
    argv = [word.replace("%s", name) for word in validate]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    message = (done.stderr.strip() or done.stdout.strip()).replace(name, "it")
    return message or f"exit status {done.returncode}" if done.returncode else ""


def apply_mode_and_owner(path: Path, mode: str | None, before: os.stat_result | None) -> None:
    """Give a new file its mode, and the owner of the file that it replaces."""
    if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(path, before.st_uid, before.st_gid)
    if mode is not None:
        path.chmod(int(mode, 8))
    elif before is not None:
        path.chmod(stat.S_IMODE(before.st_mode))
    else:
        mask = os.umask(0)
        os.umask(mask)
        path.chmod(0o666 & ~mask)


def create_path(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Make an empty file, or a folder with those above it."""
    if request["kind"] == "file":
        path.touch()
    else:
        path.mkdir(parents=True, exist_ok=True)
    if request["mode"] is not None:
        path.chmod(int(request["mode"], 8))
    return {}


def change_mode(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Change the permissions."""
    path.chmod(int(request["mode"], 8))
    return {}


def touch_path(path: Path, _request: dict[str, Any]) -> dict[str, Any]:
    """Set the time of the last change to now."""
    os.utime(path)
    return {}


def create_symlink(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Make a symbolic link."""
    path.symlink_to(request["target"])
    return {}


def remove_path(path: Path, _request: dict[str, Any]) -> dict[str, Any]:
    """Remove a file, a link or an empty folder; one that does not exist is not an error."""
    try:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    except FileNotFoundError:
        return {"removed": False}
    return {"removed": True}


if __name__ == "__main__":
    main()

"""Install sparkfleet on this host for one user, in folders of its own; see `do` in the request.

- ``probe``: the Python here (``version``, ``machine``), the ``home``, and which of ``modules`` are
  ``missing``.
- ``unpack``: the archive of ``size`` bytes with hash ``sha256`` that follows on standard input, to
  ``folder``; whole or not at all.
- ``write``: the ``files`` (text by name) to ``folder``, in place of those that are there.
- ``key``: the public SSH key of this user, which is made where there is none.
- ``host_keys``: the public keys of this host's sshd.
- ``trust``: the ``lines`` in known_hosts. ``authorize``: the ``line`` in authorized_keys.

A ``~`` is this user's home.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import build_os_error_answer
from sparkfleet.onhost.shared.paths import RefusedError, join_contained_path
from sparkfleet.onhost.shared.reading import read_optional_text
from sparkfleet.onhost.shared.writing import make_own_folder, replace_file

KEY = "~/.ssh/id_ed25519"
SECRET = 0o600


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.buffer.readline())
    os.umask(0o077)  # what it makes decides what this user runs
    handlers = {
        "probe": probe_python,
        "unpack": unpack_archive,
        "write": replace_folder,
        "key": read_key,
        "host_keys": read_host_keys,
        "trust": trust_hosts,
        "authorize": add_authorized_key,
    }
    try:
        answer = handlers[request["do"]](request)
    except RefusedError as refusal:
        answer = refusal.answer()
    except OSError as error:
        answer = build_os_error_answer(error, Path(error.filename or Path.home()))
    except tarfile.TarError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


def probe_python(request: dict[str, Any]) -> dict[str, Any]:
    """Return what the Python of this host is, and what it lacks."""
    modules = request["modules"]
    return {
        "version": list(sys.version_info[:2]),
        "machine": platform.machine(),
        "home": str(Path.home()),
        "missing": [name for name in modules if importlib.util.find_spec(name) is None],
    }


def unpack_archive(request: dict[str, Any]) -> dict[str, Any]:
    """Unpack the archive on standard input, once its hash is proven."""
    data = sys.stdin.buffer.read(request["size"])
    if hashlib.sha256(data).hexdigest() != request["sha256"]:
        return {"error": "the archive arrived with a wrong hash; run again"}
    folder = Path(request["folder"]).expanduser()
    parts = folder.with_name(f"{folder.name}.incomplete")
    shutil.rmtree(parts, ignore_errors=True)
    make_own_folder(parts)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for entry in archive:
            unpack_file(archive, entry, parts)
    shutil.rmtree(folder, ignore_errors=True)
    parts.rename(folder)
    return {"folder": str(folder)}


def unpack_file(archive: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    """Write one file below a folder; Python 3.11.2 has no filter for that."""
    path = join_contained_path(folder, entry.name)
    content = archive.extractfile(entry)
    if content is None:
        raise RefusedError(f"{entry.name} is not a file", None)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.read())


def replace_folder(request: dict[str, Any]) -> dict[str, Any]:
    """Write the files of a folder, and remove the others there."""
    folder = Path(request["folder"]).expanduser()
    shutil.rmtree(folder, ignore_errors=True)
    make_own_folder(folder)
    for name, text in request["files"].items():
        path = join_contained_path(folder, name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(SECRET)
    return {"folder": str(folder)}


def read_key(_request: dict[str, Any]) -> dict[str, Any]:
    """Return the public key, of a new pair if need be."""
    key = Path(KEY).expanduser()
    public = key.with_name(f"{key.name}.pub")
    made = not public.exists()
    if made:
        key.parent.mkdir(mode=0o700, exist_ok=True)
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"error": f"ssh-keygen: {done.stderr.strip() or done.stdout.strip()}"}
    return {"key": public.read_text().strip(), "made": made}


def read_host_keys(_request: dict[str, Any]) -> dict[str, Any]:
    """Return the public keys of sshd, as ``type base64``."""
    texts = (read_optional_text(path) for path in Path("/etc/ssh").glob("ssh_host_*_key.pub"))
    return {"keys": [" ".join(text.split()[:2]) for text in texts if text]}


def trust_hosts(request: dict[str, Any]) -> dict[str, Any]:
    """Add lines to known_hosts."""
    return {"added": add_lines(Path("~/.ssh/known_hosts").expanduser(), request["lines"])}


def add_authorized_key(request: dict[str, Any]) -> dict[str, Any]:
    """Add a line to authorized_keys."""
    path = Path("~/.ssh/authorized_keys").expanduser()
    return {"added": add_lines(path, [request["line"]])}


def add_lines(path: Path, lines: list[str]) -> int:
    """Append the lines that a file lacks; return their number."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    text = read_optional_text(path) or ""
    new = [line for line in lines if line not in text.splitlines()]
    if new:
        end = "" if not text or text.endswith("\n") else "\n"
        replace_file(path, text + end + "".join(f"{line}\n" for line in new), SECRET)
    return len(new)


if __name__ == "__main__":
    main()

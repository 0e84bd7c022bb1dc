"""sparkfleet and the libraries that it needs, as one archive for a host without them.

A host may have another processor or Python than this machine. Libraries in pure Python are always
in it, compiled ones (`COMPILED`) only if both machines have the same; otherwise the host must have
its own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from sparkfleet.errors import UsageError
from sparkfleet.inventory.files.folders import list_variable_files
from sparkfleet.resources import PACKAGE

ROOT = "sparkfleet"
LEFT_OUT = ("ray", "hf-xet")  # used on the hosts by their own engine; optional, for downloads
COMPILED: Mapping[str, str] = {  # module by library: without it paramiko does not run
    "cryptography": "cryptography",
    "bcrypt": "bcrypt",
    "pynacl": "nacl",
    "cffi": "_cffi_backend",
}
PACKAGES: Mapping[str, str] = {  # of Debian and Ubuntu, by module
    "cryptography": "python3-cryptography",
    "bcrypt": "python3-bcrypt",
    "nacl": "python3-nacl",
    "_cffi_backend": "python3-cffi-backend",
}
VARIABLE_FOLDERS = ("group_vars", "host_vars")
MAX_TEXT = 1 << 20  # bytes of a file of the inventory
DATA = ("templates", "playbooks", "inventories")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """An archive (tar, gzip), its SHA-256, and the libraries in it by version."""

    archive: bytes = field(repr=False)
    sha256: str
    libraries: Mapping[str, str]


def pack_bundle(*, compiled: bool) -> Bundle:
    """Return the archive for a host; the same files make the same archive."""
    libraries = {
        name: found
        for name, found in find_libraries(ROOT).items()
        if compiled or name not in COMPILED
    }
    files = dict(_list_own_files())
    for found in libraries.values():
        files |= dict(_list_library_files(found, compiled=compiled))
    archive = _pack(files)
    return Bundle(
        archive=archive,
        sha256=hashlib.sha256(archive).hexdigest(),
        libraries={name: found.version for name, found in libraries.items()},
    )


def find_libraries(root: str) -> dict[str, metadata.Distribution]:
    """Return what `root` needs, and what that needs, by normalized name; raises LookupError."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name in found or name in LEFT_OUT:
            continue
        found[name] = metadata.distribution(name)
        needed = map(Requirement, found[name].requires or ())
        waiting += [
            entry.name.lower().replace("_", "-")
            for entry in needed
            if entry.marker is None or entry.marker.evaluate({"extra": ""})
        ]
    del found[root]
    return found


def _list_own_files() -> Iterator[tuple[str, Path]]:
    """Yield the files of sparkfleet with its data, as in a wheel."""
    yield from _list_folder(PACKAGE, ROOT)
    if not (PACKAGE / "_data").is_dir():
        for kind in DATA:
            yield from _list_folder(PACKAGE.parent / kind, f"{ROOT}/_data/{kind}")


def _list_folder(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{name}/{path.relative_to(folder)}", path


def _list_library_files(
    library: metadata.Distribution, *, compiled: bool
) -> Iterator[tuple[str, Path]]:
    for file in library.files or ():
        is_native = ".so" in file.suffixes
        if ".." in file.parts or "__pycache__" in file.parts or (is_native and not compiled):
            continue
        path = Path(str(library.locate_file(file)))
        if path.is_file():
            yield str(file), path


def _pack(files: Mapping[str, Path]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            data = path.read_bytes()
            entry.size = len(data)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), compresslevel=1, mtime=0)


def read_inventory_files(files: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the inventory and the variables next to it; raises UsageError for a folder."""
    for name in files:
        path = Path(name)
        if path.is_dir():
            raise UsageError(
                f"{path} is a folder; --on-head accepts inventory files only",
                hint="pass each of its files with --inventory",
            )
        yield path.name, read_copied_text(path)
        for folder in VARIABLE_FOLDERS:
            if not (path.parent / folder).is_dir():
                continue
            for entry in list_variable_files(path.parent / folder):
                if entry.stat().st_size < MAX_TEXT:
                    yield str(entry.relative_to(path.parent)), read_copied_text(entry)


def read_copied_text(path: Path) -> str:
    """Return the text of a file that the head gets; raises UsageError for one that is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"{path} cannot be copied to the head: {why}", hint="move it out of that folder"
        ) from error

"""The exact bytes of a model: its files, their sizes and their hashes."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from sparkfleet import safe_paths
from sparkfleet.errors import InputError
from sparkfleet.onhost.shared.labels import PARTIAL
from sparkfleet.onhost.shared.weights.hashes import hash_file
from sparkfleet.onhost.shared.weights.ledger import Ledger
from sparkfleet.onhost.shared.weights.safetensors import find_header_problem, find_index_problem
from sparkfleet.resources import expand_home, resolve_path
from sparkfleet.unreadable_files import LFS_POINTER
from sparkfleet.values import parse_json

HASHES = "hashes.jsonl"
INDEX = (".safetensors.index.json", ".bin.index.json")  # which shards a model has
ARIA2 = ".aria2"  # next to a file of full length whose bytes have not all arrived
BOOKS = ".cache/huggingface/download"  # of `hf download --local-dir`: NAME.lock, then NAME.metadata
NUMBERED = re.compile(r"(?P<set>.*)-\d+-of-(?P<count>\d+)\.(safetensors|gguf|bin)")
OF_MAC = ("._", ".DS_Store")  # prefixes of files that macOS adds on disks of other systems
MARKS = ("*config.json", "params.json", "model_index.json", "*.safetensors", "*.gguf", "*.bin")
CONFIG = "config.json"
NAME_IT = "name the folder that holds config.json"
UNREADABLE = "make the folder readable to the user who runs this"
BROKEN = "the download is broken; fetch that file again"
CORES = 8  # at most this many hash at once; more would wait for the disk
SKIPPED_FOLDERS = (".cache", ".git")  # `hf download --local-dir` keeps its metadata in .cache


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A file of a model. The Hub knows the SHA-256 of large files and Git's SHA-1 of small ones.

    Raises UnexpectedError for a path or a hash that could lead out of the model's folder.
    """

    path: str
    size: int
    sha256: str | None = None
    git_sha1: str | None = None

    def __post_init__(self) -> None:
        safe_paths.check_relative_path("file name", self.path)
        if type(self.size) is not int or self.size < 0:
            raise safe_paths.UnexpectedError(f"size of {self.path}", self.size, "a number of bytes")
        if self.sha256 is not None:
            safe_paths.check_hex_digits(f"SHA-256 of {self.path}", self.sha256, safe_paths.SHA256)
        if self.git_sha1 is not None:
            safe_paths.check_hex_digits(f"blob id of {self.path}", self.git_sha1, safe_paths.GIT)

    @property
    def hash(self) -> str:
        """The hash as the ledger writes it: ``sha256:<hex>``, or ``git:<hex>``."""
        return f"sha256:{self.sha256}" if self.sha256 else f"git:{self.git_sha1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A model: ``ORG/NAME`` at a commit of the Hub, or a folder's name without one.

    `revision` is the branch or tag that was asked for; it was resolved to `commit` once. Raises
    UnexpectedError for what could lead out of the weights folder.
    """

    name: str
    files: tuple[ModelFile, ...]
    commit: str | None = None
    revision: str = "main"

    def __post_init__(self) -> None:
        if self.name != ".":
            safe_paths.check_relative_path("model name", self.name)
        if self.commit is not None:
            safe_paths.check_hex_digits("commit id", self.commit, safe_paths.GIT)
        safe_paths.check_relative_path("revision", self.revision)

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)


HashingCallback = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all."""


def dump_manifest(manifest: Manifest) -> str:
    """Return `manifest` as the text that `parse_manifest` reads back."""
    return json.dumps(asdict(manifest), indent=1) + "\n"


def parse_manifest(text: str) -> Manifest:
    """Return the manifest in `text`; raises ValueError if there is none."""
    try:
        tree = parse_json(text)
        files = tuple(ModelFile(**file) for file in tree.pop("files"))
        return Manifest(**tree, files=files)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no manifest: {error}") from error


FileFilter = Callable[[str], bool]
"""Says whether a file of this path is wanted."""


def ignore_hashing(_done: int, _size: int) -> None:
    """Ignore the progress of hashing."""


def accept_every_file(_path: str) -> bool:
    """Accept every file."""
    return True


def build_folder_manifest(
    path: Path, progress: HashingCallback = ignore_hashing, chosen: FileFilter = accept_every_file
) -> Manifest:
    """Return the manifest of the `chosen` files of a model in a local folder; links are followed.

    Hashes are kept in the user's cache, so that a file is hashed again only after it changed.
    Raises InputError for a folder that does not hold a whole model.
    """
    _check_source_folder(path)
    if not safe_paths.is_below(name := resolve_path(path).name):
        raise InputError(
            f"{safe_paths.shorten_value(str(path))} is not a folder of a model", hint=NAME_IT
        )
    names = {file.relative_to(path).as_posix(): file for file in _walk_source_files(path)}
    files = {name: file for name, file in names.items() if chosen(name)}
    if not files:
        raise InputError(f"{path} holds no files" + " that are chosen" * bool(names), hint=NAME_IT)
    _check_shard_numbers(path, files)
    return Manifest(name=name, files=_list_hashed_files(files, progress))


def refuse_hub_cache(path: Path) -> None:
    """Raise InputError for a cache of the Hub's client, with the newest snapshot in it."""
    patterns = ("snapshots/*", "models--*/snapshots/*", "hub/models--*/snapshots/*")
    snapshots = [found for pattern in patterns for found in path.glob(pattern)]
    if snapshots and not (path / CONFIG).is_file():
        newest = max(snapshots, key=lambda found: found.stat().st_mtime)
        raise InputError(f"{path} is a cache of the Hub's client", hint=f"name {newest}")


def _check_source_folder(path: Path) -> None:
    """Refuse a folder above the one that is meant, and one whose download has not ended."""
    refuse_hub_cache(path)
    inside = sorted({child.parent.name for mark in MARKS for child in path.glob(f"*/{mark}")})
    if inside and not any(True for mark in MARKS for _ in path.glob(mark)):
        raise InputError(
            f"{path} is a folder of models, not a model", hint=f"name {path}/{inside[0]}"
        )
    begun = sorted((*path.rglob("*" + ARIA2), *_find_unfinished_downloads(path)))
    if begun:
        raise InputError(f"the download of {begun[0].with_suffix('')} is not complete", hint=BROKEN)


def _find_unfinished_downloads(path: Path) -> Iterator[Path]:
    """Yield ``NAME.lock`` for each file that `hf download --local-dir` began and did not end."""
    for lock in (path / BOOKS).rglob("*.lock"):
        file = path / lock.relative_to(path / BOOKS)
        if not (lock.with_suffix(".metadata").exists() or file.with_suffix("").exists()):
            yield file


def _check_shard_numbers(path: Path, names: Collection[str]) -> None:
    """Refuse numbered files (``-00001-of-00002``) with gaps, unless an index lists them."""
    listed = {PurePosixPath(name).parent for name in names if name.endswith(INDEX)}
    loose = (name for name in names if PurePosixPath(name).parent not in listed)
    sets = Counter(match.group("set", "count") for match in map(NUMBERED.fullmatch, loose) if match)
    for (name, count), there in sets.items():
        if there < int(count):
            raise InputError(f"{path}: {name} has {there} of {int(count)} files", hint=BROKEN)


def build_file_manifest(path: Path) -> Manifest:
    """Return the manifest of one loose file, which is directly in the weights folder."""
    if not path.is_file():
        raise InputError(
            f"file {path} not found on this machine", hint="correct its path in weights_files"
        )
    return Manifest(name=".", files=_list_hashed_files({path.name: path}, ignore_hashing))


def check_folder_name(name: str) -> None:
    """Raise InputError for what cannot be the name of a folder below the weights folder."""
    if name.startswith("~") or not safe_paths.is_below(name):
        raise InputError(
            f"{name!r} is not a valid name for a folder below weights_dir",
            hint=(
                "set vllm_model to the name of the model, and weights_source to where it comes from"
            ),
        )


def _walk_source_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder, followlinks=True, onerror=_refuse_unreadable):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        _refuse_link_loops(Path(parent), folders)
        kept = (name for name in sorted(names) if not name.startswith(OF_MAC))
        yield from (Path(parent, name) for name in kept if not name.endswith(PARTIAL))


def _refuse_unreadable(error: OSError) -> None:
    raise InputError(f"{error.filename}: {error.strerror}", hint=UNREADABLE) from error


def _refuse_link_loops(parent: Path, folders: Sequence[str]) -> None:
    """Refuse a link to a folder above it: such a walk would end only at the kernel's limit."""
    for link in (parent / name for name in folders):
        if link.is_symlink() and resolve_path(parent).is_relative_to(target := resolve_path(link)):
            raise InputError(f"{link} links to {target}, which contains it", hint="remove the link")


def _list_hashed_files(
    files: Mapping[str, Path], progress: HashingCallback
) -> tuple[ModelFile, ...]:
    """Return `files` with their hashes, those that are known and those that are hashed now."""
    ledger = Ledger(locate_user_cache() / HASHES, writable=True)
    try:
        for name, file in files.items():
            if problem := _find_file_problem(file, name, file.stat().st_size):
                raise InputError(f"{file}: {problem}", hint=BROKEN)
        _hash_files(
            [file for file in files.values() if not _lookup_hash(file, ledger)], ledger, progress
        )
        return tuple(_make_model_file(name, file, ledger) for name, file in files.items())
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}", hint=BROKEN) from error
    except safe_paths.UnexpectedError as error:
        raise InputError(str(error), hint="give that file another name") from error


def _hash_files(files: Sequence[Path], ledger: Ledger, progress: HashingCallback) -> None:
    """Hash `files`, one on each core."""
    sizes = [file.stat().st_size for file in files]
    done = 0
    with ThreadPoolExecutor(min(os.cpu_count() or 1, CORES)) as threads:
        hashes = threads.map(lambda file: hash_file(file, "sha256"), files)
        for file, size, file_hash in zip(files, sizes, hashes, strict=True):
            ledger.record(str(resolve_path(file)), file.stat(), file_hash)
            done += size
            progress(done, sum(sizes))


def _lookup_hash(file: Path, ledger: Ledger) -> str | None:
    return ledger.lookup(str(resolve_path(file)), file.stat(), "sha256")


def _make_model_file(name: str, file: Path, ledger: Ledger) -> ModelFile:
    size = file.stat().st_size
    file_hash = _lookup_hash(file, ledger)
    if file_hash is None:
        raise InputError(f"{file} changed while it was read", hint="run again once it is complete")
    return ModelFile(path=name, size=size, sha256=file_hash.partition(":")[2])


def _find_file_problem(file: Path, name: str, size: int) -> str | None:
    with file.open("rb") as opened:
        if opened.read(len(LFS_POINTER)) == LFS_POINTER:
            return "a Git LFS pointer, not the file itself; in its folder: git lfs pull"
    if file.suffix == ".safetensors":
        return find_header_problem(file, size)
    if file.name.endswith(INDEX):
        return find_index_problem(file, nested="/" in name)
    return None


def locate_user_cache() -> Path:
    """Return the folder in which this user's runs remember what is slow to find out again."""
    home = os.environ.get("XDG_CACHE_HOME") or expand_home("~/.cache")
    return Path(home, "sparkfleet")

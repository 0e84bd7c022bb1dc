"""The files of a source at one commit: a git repository by the system's git, or a folder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sparkfleet.errors import RecipeError, UsageError, Where
from sparkfleet.resources import expand_home
from sparkfleet.safe_paths import is_below, shorten_value

SUFFIXES = (".yml", ".yaml")
PROGRAM = "run.sh"
MAX_FILES = 5000
MAX_BYTES = 2_000_000  # of one file
MAX_TOTAL = 100_000_000  # bytes of all files
PATIENCE = 600.0  # seconds until git counts as one that never answers
SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
REGULAR = ("100644", "100755")  # modes in git; 120000 is a link, 160000 a submodule
# A hook of git sets these for its own repository, which is another one.
PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
OR_FOLDER = "a folder can be added too"
REASONS = (("ssh:", "Host key"), ("fatal:", "error:", "ERROR:"))  # ssh says more than git
PROTOCOLS = "file:git:http:https:ssh"  # and none that runs a command, such as ext::


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Recipes and mods of a source at `commit`; `files` are their contents by path."""

    commit: str
    files: Mapping[str, bytes]


def take_snapshot(source: str, revision: str = "", *, otherwise: str = OR_FOLDER) -> Snapshot:
    """Return the files of a git repository at `revision`, or of a folder; raises RecipeError.

    `otherwise` is the hint where git cannot have the repository.

    Only recipes (.yml, .yaml) and the folders of mods (with a run.sh) are taken, and of them only
    regular files. Nothing of the source is run, and no hook of git either.
    """
    folder = expand_home(source)
    if folder.is_file():
        raise UsageError(
            f"{source} is a file, and not a repository or a folder",
            hint=f"for one recipe, type: {{task:recipes.import}} {source}",
        )
    if folder.is_dir() and not _is_repository(folder):
        if revision:
            raise UsageError(f"{source} is not a git repository: it has no revision {revision}")
        return _read_folder(folder)
    with tempfile.TemporaryDirectory(prefix="sparkfleet-shelf-") as temporary:
        return _read_repository(source, revision, Path(temporary), otherwise)


def _is_repository(folder: Path) -> bool:
    return (folder / ".git").exists() or (folder / "HEAD").is_file()


def _read_folder(folder: Path) -> Snapshot:
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and not _has_link(path, folder)
    ]
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    wanted = _select_files(named)
    _check_sizes({name: named[name].stat().st_size for name in wanted})
    files = {name: named[name].read_bytes() for name in wanted}
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{len(name)} {name} {len(content)} ".encode() + content)
    return Snapshot(commit=digest.hexdigest(), files=files)


def _has_link(path: Path, folder: Path) -> bool:
    return any(above.is_symlink() for above in path.parents if above.is_relative_to(folder))


def _read_repository(source: str, revision: str, temporary: Path, otherwise: str) -> Snapshot:
    clone = temporary / "clone"
    words = ("--quiet", "--no-checkout", "--no-recurse-submodules", "--", source, clone)
    _run_git("clone", *words, hint=otherwise)
    commit = _resolve_commit(clone, revision)
    blobs = _list_blobs(clone, commit)
    wanted = _select_files(blobs)
    _check_sizes({name: blobs[name].size for name in wanted})
    contents = _read_blobs(clone, [blobs[name] for name in wanted])
    return Snapshot(commit=commit, files=dict(zip(wanted, contents, strict=True)))


def _read_blobs(clone: Path, blobs: Sequence[Blob]) -> Iterator[bytes]:
    """Yield the contents of blobs; before each, git writes a line with its id and size."""
    asked = "".join(f"{blob.id}\n" for blob in blobs).encode()
    answer = _run_git("-C", clone, "cat-file", "--batch", input_=asked)
    at = 0
    for blob in blobs:
        begin = answer.index(b"\n", at) + 1
        at = begin + blob.size + 1
        yield answer[begin : at - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A regular file of a commit: its id in git, and its size in bytes."""

    id: str
    size: int


def _list_blobs(clone: Path, commit: str) -> dict[str, Blob]:
    """Return the regular files of a commit; no content is unpacked for it, however large."""
    listing = _run_git("-C", clone, "ls-tree", "-r", "-z", "--long", commit)
    blobs = {}
    for row in listing.split(b"\0")[:-1]:
        about, _, name = row.partition(b"\t")
        mode, _, blob, size = about.decode().split()
        if mode in REGULAR:
            blobs[os.fsdecode(name)] = Blob(id=blob, size=int(size))
    return blobs


def _resolve_commit(clone: Path, revision: str) -> str:
    for name in (f"origin/{revision}", revision) if revision else ("origin/HEAD", "HEAD"):
        done = _call_git("-C", clone, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        if done.returncode == 0:
            return done.stdout.decode().strip()
    raise RecipeError(
        f"revision {revision or 'HEAD'!r} not found in the repository",
        hint="name a branch, a tag or a commit",
    )


def _run_git(*words: str | Path, hint: str | None = None, input_: bytes = b"") -> bytes:
    done = _call_git(*words, input_=input_)
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip()
        lines = text.splitlines() or [f"git exited with {done.returncode}"]
        reasons = [line for starts in REASONS for line in lines if line.startswith(starts)]
        reason = (reasons or lines[-1:])[0]
        raise RecipeError(f"git: {reason}", hint=hint)
    return done.stdout


def _call_git(*words: str | Path, input_: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {
        **{name: value for name, value in os.environ.items() if name not in PLACES},
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": PROTOCOLS,
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
    try:
        return subprocess.run(
            ["git", *SAFE, *map(str, words)],
            capture_output=True,
            check=False,
            timeout=PATIENCE,
            env=environment,
            input=input_,
        )
    except FileNotFoundError as error:
        raise UsageError("git is not installed", hint="type: sudo apt install git") from error
    except subprocess.TimeoutExpired as error:
        raise RecipeError(f"git did not answer within {PATIENCE:.0f} s") from error


def _select_files(names: Mapping[str, object]) -> list[str]:
    """Return the recipes and the files of mods; raises RecipeError where there are too many."""
    mods = {str(PurePosixPath(name).parent) for name in names if name.endswith(f"/{PROGRAM}")}
    chosen = [
        name
        for name in names
        if not _is_hidden(name) and (name.endswith(SUFFIXES) or _is_in_mod(name, mods))
    ]
    if len(chosen) > MAX_FILES:
        raise RecipeError(
            f"the source has {len(chosen)} recipes and files of mods, more than {MAX_FILES}"
        )
    for name in chosen:
        if not (is_below(name) and name.isprintable()):
            raise RecipeError(
                "the source has a file whose name is not allowed in a shelf: "
                f"{shorten_value(name)}",
                hint="give the file a name of letters, digits and . _ -",
            )
    return sorted(chosen)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(name).parts)


def _is_in_mod(name: str, mods: set[str]) -> bool:
    return any(str(above) in mods for above in PurePosixPath(name).parents)


def _check_sizes(sizes: Mapping[str, int]) -> None:
    """Raise RecipeError for files that are too large, alone or in total, before any is read."""
    for name, size in sizes.items():
        if size > MAX_BYTES:
            raise RecipeError(
                f"the file is larger than {MAX_BYTES // 1_000_000} MB", where=Where(file=name)
            )
    if sum(sizes.values()) > MAX_TOTAL:
        raise RecipeError(f"recipes and mods have more than {MAX_TOTAL // 1_000_000} MB in total")


def iterate_changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the paths that differ between two snapshots."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield name

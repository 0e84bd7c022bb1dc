"""The files of a source at one commit: a git repository by the system's git, or a folder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sparkfleet.errors import RecipeError, UsageError, Where
from sparkfleet.safe_paths import is_below, shortened

SUFFIXES = (".yml", ".yaml")
PROGRAM = "run.sh"
MOST_FILES = 5000
MOST_BYTES = 2_000_000  # of one file
MOST_TOTAL = 100_000_000  # bytes of all files
PATIENCE = 600.0  # s until git counts as one that never answers
SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
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
    folder = Path(source).expanduser()
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
    archive = temporary / "files.tar"
    _run_git("-C", clone, "archive", "--format=tar", f"--output={archive}", commit)
    with tarfile.open(archive) as tar:
        members = {member.name: member for member in tar if member.isreg()}
        wanted = _select_files(members)
        _check_sizes({name: members[name].size for name in wanted})
        files = {}
        for name in wanted:
            content = tar.extractfile(members[name])
            files[name] = content.read() if content else b""
    return Snapshot(commit=commit, files=files)


def _resolve_commit(clone: Path, revision: str) -> str:
    for name in (f"origin/{revision}", revision) if revision else ("origin/HEAD", "HEAD"):
        done = _call_git("-C", clone, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        if done.returncode == 0:
            return done.stdout.strip()
    raise RecipeError(
        f"revision {revision or 'HEAD'!r} not found in the repository",
        hint="name a branch, a tag or a commit",
    )


def _run_git(*words: str | Path, hint: str | None = None) -> None:
    done = _call_git(*words)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"git exited with {done.returncode}"]
        reasons = [line for starts in REASONS for line in lines if line.startswith(starts)]
        reason = (reasons or lines[-1:])[0]
        raise RecipeError(f"git: {reason}", hint=hint)


def _call_git(*words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": PROTOCOLS,
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
    try:
        return subprocess.run(
            ["git", *SAFE, *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise UsageError("git is not installed", hint="type: sudo apt install git") from error
    except subprocess.TimeoutExpired as error:
        raise RecipeError(f"git did not answer in {PATIENCE:.0f} s") from error


def _select_files(names: Mapping[str, object]) -> list[str]:
    """Return the recipes and the files of mods; raises RecipeError where there are too many."""
    mods = {str(PurePosixPath(name).parent) for name in names if name.endswith(f"/{PROGRAM}")}
    chosen = [
        name
        for name in names
        if not _is_hidden(name) and (name.endswith(SUFFIXES) or _is_in_mod(name, mods))
    ]
    if len(chosen) > MOST_FILES:
        raise RecipeError(f"has {len(chosen)} recipes and files of mods, more than {MOST_FILES}")
    for name in chosen:
        if not (is_below(name) and name.isprintable()):
            raise RecipeError(
                f"has a file whose name is not allowed in a shelf: {shortened(name)}",
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
        if size > MOST_BYTES:
            raise RecipeError(
                f"is larger than {MOST_BYTES // 1_000_000} MB", where=Where(file=name)
            )
    if sum(sizes.values()) > MOST_TOTAL:
        raise RecipeError(f"recipes and mods have more than {MOST_TOTAL // 1_000_000} MB in total")


def iterate_changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the paths that differ between two snapshots."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield name

"""Verdicts about an inspection: one for each thing that is wrong; pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from sparkfleet.model import Severity, Verdict
from sparkfleet.onhost.shared.paths import NETWORK_FILESYSTEM
from sparkfleet.quantities import format_size
from sparkfleet.verdicts import build_verdict, error, ok, warning
from sparkfleet.weights import layout
from sparkfleet.weights.inspection import IncompleteFile, Inspection, RequiredSpace, Storage
from sparkfleet.weights.manifest import Manifest, ModelFile

STAGE = "stage it: {task:weights.stage}"
FAT_LIMIT = 2**32 - 1  # bytes of a file on FAT
NO_LINKS = ("vfat", "msdos", "exfat")
READ_ONLY = ", mounted read-only"
A_LINK = ", a link to "  # as onhost/weights/storage.py says it
NAMED = 3  # paths that one verdict names at most

FIXES = {
    "header": "its source has the same fault; use another revision, or fetch the source again",
    "kind": "move it away; then stage again",
    "outside": STAGE + "; or move the whole folder below weights_dir",
}
EXPECTED: dict[str, Callable[[ModelFile], str]] = {
    "missing": lambda file: f"{file.size} bytes",
    "size": lambda file: f"{file.size} bytes",
    "hash": lambda file: file.hash,
    "header": lambda _: "a safetensors file as long as its header says",
    "dangling": lambda _: "a link to a file that exists",
    "unreadable": lambda _: "a file that this user can read",
    "outside": lambda _: "a file below the weights folder, which is what the engine sees",
    "kind": lambda _: "a regular file",
}


def check_model_files(inspection: Inspection, manifest: Manifest) -> tuple[Verdict, ...]:
    """Return the verdicts on the files of `manifest`: an error for each that is not complete."""
    files = {location.path: location.file for location in layout.list_file_locations(manifest)}
    if len(files) > 1 and _is_absent(inspection, len(files)):
        return (_make_missing_verdict(inspection, manifest),)
    return (
        *(
            _make_file_verdict(inspection, finding, files[finding.path])
            for finding in inspection.findings
        ),
        *_check_shard_indexes(inspection),
        *_check_revision(inspection, manifest),
    )


def _is_absent(inspection: Inspection, count: int) -> bool:
    absent = [f for f in inspection.findings if (f.state, f.offset) == ("missing", 0)]
    return len(absent) == count and not inspection.storage.commits


def _make_missing_verdict(inspection: Inspection, manifest: Manifest) -> Verdict:
    return error(
        "weights.missing",
        inspection.host,
        f"{inspection.storage.root}/{layout.locate_served_folder(manifest)}",
        expected=f"{len(manifest.files)} files, {format_size(manifest.size)}",
        seen="none of them",
        fix=STAGE,
    )


def make_complete_verdict(inspection: Inspection, manifest: Manifest) -> Verdict:
    """Return the verdict on a host that holds all of `manifest`."""
    read = f", {format_size(inspection.hashed)} hashed now" if inspection.hashed else ""
    whole = f"{len(manifest.files)} files, {format_size(manifest.size)}"
    return ok(
        "weights.complete",
        inspection.host,
        f"{inspection.storage.root}/{layout.locate_served_folder(manifest)}",
        expected=whole,
        seen=f"all of them, verified{read}",
    )


def _make_file_verdict(inspection: Inspection, finding: IncompleteFile, file: ModelFile) -> Verdict:
    actual = finding.seen
    if finding.offset:
        actual += f" and {finding.offset} bytes of an earlier run"
    return error(
        f"weights.{finding.state}",
        inspection.host,
        f"{inspection.storage.root}/{finding.path}",
        expected=EXPECTED[finding.state](file),
        seen=actual,
        fix=FIXES.get(finding.state, STAGE),
    )


def _check_shard_indexes(inspection: Inspection) -> Iterator[Verdict]:
    damaged = {finding.path for finding in inspection.findings}
    indexes = inspection.storage.indexes.items()
    for path, problem in (entry for entry in indexes if entry[0] not in damaged):
        yield error(
            "weights.index",
            inspection.host,
            f"{inspection.storage.root}/{path}",
            expected="every shard that it names",
            seen=problem,
            fix="fetch the model's source again; where it has its weights in other files: "
            f"weights_ignore: ['{path.rpartition('/')[2]}']",
        )


def _check_revision(inspection: Inspection, manifest: Manifest) -> Iterator[Verdict]:
    path = layout.locate_ref(manifest)
    actual = inspection.storage.refs.get(path or "")
    if path and actual != manifest.commit:
        commits = ", ".join(inspection.storage.commits) or "no commit"
        yield error(
            "weights.revision",
            inspection.host,
            f"{inspection.storage.root}/{path}",
            expected=str(manifest.commit),
            seen=actual or f"no {manifest.revision}; found {commits}",
            fix=STAGE,
        )


def check_storage(inspection: Inspection, space: RequiredSpace) -> Iterator[Verdict]:
    """Yield what prevents a host from holding the files of `space`."""
    storage = inspection.storage
    if not storage.folder or not storage.writable:
        yield error(
            "weights.root",
            inspection.host,
            storage.root,
            expected=f"a folder that {storage.user} can write",
            seen=f"{storage.base} of {storage.owner}",
            fix=_suggest_root_fix(storage),
        )
    if storage.locked:
        yield _make_paths_verdict(inspection, "locked", storage.locked, Severity.ERROR)
    yield from _check_space(inspection, sum(space.sizes))
    yield from _check_filesystem(inspection, space)


def _suggest_root_fix(storage: Storage) -> str:
    if storage.base.endswith(READ_ONLY):
        return f"mount it for writing, or set weights_dir: findmnt --target {storage.root}"
    if A_LINK in storage.base:
        return "mount the disk that it leads to, or set weights_dir"
    return f"sudo mkdir -p {storage.root} && sudo chown {storage.user} {storage.root}"


def _check_filesystem(inspection: Inspection, space: RequiredSpace) -> Iterator[Verdict]:
    storage = inspection.storage
    inodes = len(space.sizes) + space.links
    if storage.free_inodes is not None and storage.free_inodes < inodes:
        yield error(
            "weights.inodes",
            inspection.host,
            storage.base,
            expected=f"{inodes} free inodes",
            seen=str(storage.free_inodes),
            fix="remove small files from that filesystem: df -i",
        )
    if storage.filesystem in NO_LINKS and (space.links or max(space.sizes, default=0) > FAT_LIMIT):
        yield error(
            "weights.filesystem",
            inspection.host,
            storage.base,
            expected="a filesystem with links and files over 4 GiB (ext4, xfs)",
            seen=storage.filesystem,
            fix="set weights_dir of this host to a folder on another filesystem",
        )


def _check_space(inspection: Inspection, size: int) -> Iterator[Verdict]:
    storage = inspection.storage
    left = {"space": storage.free, "quota": storage.quota_left}
    for check, free in left.items():
        if free is not None and free < size:
            yield error(
                f"weights.{check}",
                inspection.host,
                storage.base,
                expected=f"{format_size(size)} in addition to the existing files",
                seen=f"{format_size(free)} left",
                fix=f"free {format_size(size - free)} more: {{task:weights.prune}}",
            )


def check_network_folder(inspection: Inspection) -> Iterator[Verdict]:
    """Yield a warning if a folder that is to hold a host's own copy is on the network."""
    storage = inspection.storage
    if NETWORK_FILESYSTEM.fullmatch(storage.filesystem):
        yield warning(
            "weights.network",
            inspection.host,
            storage.base,
            expected="a disk of the host",
            seen=f"{storage.filesystem}: every start reads the weights over the network",
            fix="set weights_dir of this host to a folder on its disk; or weights_strategy: "
            "shared, if all hosts see the same files there",
        )


def check_model_folder(inspection: Inspection) -> Iterator[Verdict]:
    """Yield warnings about a model's folder that do not keep the engine from reading it."""
    storage = inspection.storage
    if storage.foreign:
        yield _make_paths_verdict(inspection, "owner", storage.foreign, Severity.WARNING)
    if storage.strays:
        yield _make_paths_verdict(inspection, "stray", storage.strays, Severity.WARNING)
    if storage.extra:
        yield _make_paths_verdict(inspection, "extra", storage.extra, Severity.WARNING)
    if storage.filesystem in ("tmpfs", "ramfs"):
        yield warning(
            "weights.memory",
            inspection.host,
            storage.base,
            expected="a disk",
            seen=f"{storage.filesystem}: the weights take the GPU's memory",
            fix="set weights_dir of this host to a folder on its disk",
        )


PATHS = {
    "locked": ("folders that this user can write", "sudo chown -R {user} {root}"),
    "owner": (
        "files of this user (a container that ran as root leaves others)",
        "sudo chown -R {user} {root}",
    ),
    "stray": ("no unfinished downloads", "if no download runs there: rm {all}"),
    "extra": ("only the weights files of this model", "move them away; vLLM may load them too"),
}


def _make_paths_verdict(
    inspection: Inspection, check: str, paths: tuple[str, ...], severity: Severity
) -> Verdict:
    storage = inspection.storage
    expected, fix = PATHS[check]
    bare = [path.split(" (")[0] for path in paths]
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return build_verdict(
        severity,
        f"weights.{check}",
        inspection.host,
        bare[0],
        expected=expected,
        seen=", ".join(paths[:NAMED]) + more,
        fix=fix.format(user=storage.user, root=storage.root, all=shlex.join(bare)),
    )

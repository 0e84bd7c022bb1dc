"""What an inspection means: one verdict for each thing that is not as it should be; pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from sparkfleet.model import Severity, Verdict
from sparkfleet.quantities import show_size
from sparkfleet.weights import layout
from sparkfleet.weights.inspection import Finding, Inspection, Room, Storage
from sparkfleet.weights.manifest import File, Manifest

STAGE = "stage it: sparkfleet weights.stage"
FAT_LIMIT = 2**32 - 1  # bytes of a file on FAT
NO_LINKS = ("vfat", "msdos", "exfat")
READ_ONLY, A_LINK = ", mounted read-only", ", a link to "  # as onhost/storage.py says it
NAMED = 3  # paths that one verdict names at most

FIXES = {
    "header": "it is so at its source; take another revision, or fetch the source again",
    "kind": "move it away; then stage again",
    "outside": STAGE + "; or move the whole folder below weights_dir",
}
EXPECTED: dict[str, Callable[[File], str]] = {
    "missing": lambda file: f"{file.size} bytes",
    "size": lambda file: f"{file.size} bytes",
    "hash": lambda file: file.hash,
    "header": lambda _: "a safetensors file as long as its header says",
    "dangling": lambda _: "a link to a file that exists",
    "unreadable": lambda _: "a file that this user can read",
    "outside": lambda _: "a file below the weights folder, which is what the engine sees",
    "kind": lambda _: "a regular file",
}


def on_files(inspection: Inspection, manifest: Manifest) -> tuple[Verdict, ...]:
    """Return the verdicts on the files of `manifest`: an error for each that is not complete."""
    files = {place.path: place.file for place in layout.places(manifest)}
    if len(files) > 1 and _absent(inspection, len(files)):
        return (_nothing(inspection, manifest),)
    return (
        *(_file(inspection, finding, files[finding.path]) for finding in inspection.findings),
        *_indexes(inspection),
        *_revision(inspection, manifest),
    )


def _absent(inspection: Inspection, count: int) -> bool:
    absent = [f for f in inspection.findings if (f.state, f.offset) == ("missing", 0)]
    return len(absent) == count and not inspection.storage.commits


def _nothing(inspection: Inspection, manifest: Manifest) -> Verdict:
    return _verdict(
        inspection,
        "missing",
        f"{inspection.storage.root}/{layout.served(manifest)}",
        expected=f"{len(manifest.files)} files, {show_size(manifest.size)}",
        seen="none of them",
        fix=STAGE,
    )


def complete(inspection: Inspection, manifest: Manifest) -> Verdict:
    """Return the verdict on a host that holds all of `manifest`."""
    read = f", {show_size(inspection.hashed)} hashed now" if inspection.hashed else ""
    whole = f"{len(manifest.files)} files, {show_size(manifest.size)}"
    return _verdict(
        inspection,
        "complete",
        f"{inspection.storage.root}/{layout.served(manifest)}",
        severity=Severity.OK,
        expected=whole,
        seen=f"all of them, proven{read}",
    )


def _verdict(inspection: Inspection, check: str, subject: str, **texts: str) -> Verdict:
    return Verdict(
        check=f"weights.{check}",
        severity=Severity(texts.pop("severity", Severity.ERROR)),
        host=inspection.host,
        subject=subject,
        **texts,
    )


def _file(inspection: Inspection, finding: Finding, file: File) -> Verdict:
    seen = finding.seen
    if finding.offset:
        seen += f" and {finding.offset} bytes of an earlier run"
    return _verdict(
        inspection,
        finding.state,
        f"{inspection.storage.root}/{finding.path}",
        expected=EXPECTED[finding.state](file),
        seen=seen,
        fix=FIXES.get(finding.state, STAGE),
    )


def _indexes(inspection: Inspection) -> Iterator[Verdict]:
    damaged = {finding.path for finding in inspection.findings}
    indexes = inspection.storage.indexes.items()
    for path, problem in (one for one in indexes if one[0] not in damaged):
        yield _verdict(
            inspection,
            "index",
            f"{inspection.storage.root}/{path}",
            expected="every shard that it names",
            seen=problem,
            fix="fetch the model's source again; where it has its weights in other files: "
            f"weights_ignore: ['{path.rpartition('/')[2]}']",
        )


def _revision(inspection: Inspection, manifest: Manifest) -> Iterator[Verdict]:
    path = layout.ref(manifest)
    seen = inspection.storage.refs.get(path or "")
    if path and seen != manifest.commit:
        others = ", ".join(inspection.storage.commits) or "no commit"
        yield _verdict(
            inspection,
            "revision",
            f"{inspection.storage.root}/{path}",
            expected=str(manifest.commit),
            seen=seen or f"no {manifest.revision}; {others} is there",
            fix=STAGE,
        )


def on_storage(inspection: Inspection, room: Room) -> Iterator[Verdict]:
    """Yield what keeps a host from giving `room`."""
    storage = inspection.storage
    if not storage.folder or not storage.writable:
        yield _verdict(
            inspection,
            "root",
            storage.root,
            expected=f"a folder that {storage.user} can write",
            seen=f"{storage.base} of {storage.owner}",
            fix=_root_fix(storage),
        )
    if storage.locked:
        yield _paths(inspection, "locked", storage.locked, Severity.ERROR)
    yield from _space(inspection, sum(room.sizes))
    yield from _filesystem(inspection, room)


def _root_fix(storage: Storage) -> str:
    if storage.base.endswith(READ_ONLY):
        return f"mount it for writing, or set weights_dir: findmnt --target {storage.root}"
    if A_LINK in storage.base:
        return "mount the disk that it leads to, or set weights_dir"
    return f"sudo mkdir -p {storage.root} && sudo chown {storage.user} {storage.root}"


def _filesystem(inspection: Inspection, room: Room) -> Iterator[Verdict]:
    storage, inodes = inspection.storage, len(room.sizes) + room.links
    if storage.free_inodes is not None and storage.free_inodes < inodes:
        yield _verdict(
            inspection,
            "inodes",
            storage.base,
            expected=f"{inodes} free inodes",
            seen=str(storage.free_inodes),
            fix="remove small files from that filesystem: df -i",
        )
    if storage.filesystem in NO_LINKS and (room.links or max(room.sizes, default=0) > FAT_LIMIT):
        yield _verdict(
            inspection,
            "filesystem",
            storage.base,
            expected="a filesystem with links and files over 4 GiB (ext4, xfs)",
            seen=storage.filesystem,
            fix="set weights_dir of this host to a folder on another filesystem",
        )


def _space(inspection: Inspection, size: int) -> Iterator[Verdict]:
    storage = inspection.storage
    left = {"space": storage.free, "quota": storage.quota_left}
    for check, free in left.items():
        if free is not None and free < size:
            yield _verdict(
                inspection,
                check,
                storage.base,
                expected=f"{show_size(size)} beside what is there already",
                seen=f"{show_size(free)} left",
                fix=f"make room for {show_size(size - free)} more: sparkfleet weights.prune",
            )


def on_folder(inspection: Inspection) -> Iterator[Verdict]:
    """Yield what is odd about a model's folder, though the engine can read the model."""
    storage = inspection.storage
    if storage.foreign:
        yield _paths(inspection, "owner", storage.foreign, Severity.WARNING)
    if storage.strays:
        yield _paths(inspection, "stray", storage.strays, Severity.WARNING)
    if storage.extra:
        yield _paths(inspection, "extra", storage.extra, Severity.WARNING)
    if storage.filesystem in ("tmpfs", "ramfs"):
        yield _verdict(
            inspection,
            "memory",
            storage.base,
            severity=Severity.WARNING,
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


def _paths(
    inspection: Inspection, check: str, paths: tuple[str, ...], severity: Severity
) -> Verdict:
    storage = inspection.storage
    expected, fix = PATHS[check]
    bare = [path.split(" (")[0] for path in paths]
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return _verdict(
        inspection,
        check,
        bare[0],
        severity=severity,
        expected=expected,
        seen=", ".join(paths[:NAMED]) + more,
        fix=fix.format(user=storage.user, root=storage.root, all=shlex.join(bare)),
    )

"""The filesystem of a folder is that of the nearest mount, also before the folder is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.onhost.shared import paths
from sparkfleet.onhost.shared.paths import NETWORK_FILESYSTEM, find_filesystem


def test_a_folder_that_is_not_made_yet_has_the_filesystem_of_the_one_above(tmp_path: Path) -> None:
    assert find_filesystem("/proc") == "proc"
    assert find_filesystem(str(tmp_path / "not" / "made")) == find_filesystem(str(tmp_path)) != ""


def test_a_link_counts_as_what_it_leads_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").symlink_to("/proc")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_filesystem("~/cache/kernels") == "proc"


def test_the_longest_mount_counts_and_spaces_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "/dev/a / ext4 rw 0 0\nnas:/x /mnt/my\\040nas nfs4 rw 0 0\n/dev/b /mnt xfs rw 0 0\n"
    monkeypatch.setattr(Path, "read_text", lambda _: text)
    assert paths.find_mount(Path("/mnt/my nas/hub")) == ("nas:/x", "nfs4")
    assert paths.find_mount(Path("/mnt/other")) == ("/dev/b", "xfs")
    assert paths.find_mount(Path("/mntx")) == ("/dev/a", "ext4")


def test_disks_are_not_network_filesystems() -> None:
    remote = ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.rclone"]
    local = ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "vfat", "fuseblk", "fuse", "nfsd"]
    found = [name for name in remote + local if NETWORK_FILESYSTEM.fullmatch(name)]
    assert found == remote

"""Links that another user planted in a weights folder that both can write to lead nowhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkfleet.onhost.shared.labels import STATE_FOLDER
from sparkfleet.onhost.shared.paths import RefusedError
from sparkfleet.onhost.shared.weights.ledger import Ledger, append_row
from sparkfleet.onhost.shared.writing import lock_weights_folder, make_own_folder
from sparkfleet.onhost.weights.receiver import WeightsStore

SOMEONE = 4242


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "weights").mkdir()
    return tmp_path / "weights"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder of this user, with a file that a shell reads at its start."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o755)
    (folder / ".bashrc").write_text("mine")
    return folder


def _lock(root: Path) -> None:
    os.close(lock_weights_folder(root))


def _make(root: Path) -> None:
    make_own_folder(root / STATE_FOLDER / "default")


@pytest.mark.parametrize("use", [_lock, _make], ids=["weights", "deployment"])
def test_a_link_of_another_user_in_the_place_of_the_state_is_refused(
    use: Callable[[Path], None], root: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / STATE_FOLDER).symlink_to(victim)
    if os.getuid() == 0:
        os.lchown(root / STATE_FOLDER, SOMEONE, SOMEONE)
    else:
        monkeypatch.setattr(os, "getuid", lambda: SOMEONE)
    with pytest.raises(RefusedError, match="is a symbolic link of user"):
        use(root)
    assert [path.name for path in victim.iterdir()] == [".bashrc"]
    assert victim.stat().st_mode & 0o777 == 0o755


def test_a_link_in_the_place_of_the_ledger_or_the_lock_is_not_written_through(
    root: Path, victim: Path
) -> None:
    (root / STATE_FOLDER).mkdir()
    for name in ("ledger.jsonl", "lock"):
        (root / STATE_FOLDER / name).symlink_to(victim / ".bashrc")
    ledger = root / STATE_FOLDER / "ledger.jsonl"
    with pytest.raises(OSError, match="symbolic links"):
        append_row(ledger, ["$(touch x)"])
    with pytest.raises(OSError, match="symbolic links"):
        lock_weights_folder(root)
    (root / STATE_FOLDER / "lock").unlink()
    with pytest.raises(OSError, match="symbolic links"):
        WeightsStore(root)
    (root / "file").touch()
    Ledger(ledger, writable=True).record("$(touch x)", (root / "file").stat(), "sha256:0")
    assert (victim / ".bashrc").read_text() == "mine"

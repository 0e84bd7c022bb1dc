"""The verdict on health: every state, for Ray and mp, each rank, each with its opposite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.facts.gpu_state import GpuState
from sparkfleet.facts.last_shutdown import LastShutdown
from sparkfleet.facts.machine import GpuProcess
from sparkfleet.launch.endpoint.health import HealthLook, HealthState, HostLook, judge_health
from sparkfleet.launch.endpoint.health.observation import (
    EndpointLook,
    EngineProcess,
    LogEnd,
    ProbeLook,
    RoleLook,
)
from sparkfleet.launch.host.deployment_record import (
    DeploymentRecord,
    PreviousDeployment,
    RunProgress,
    RunStep,
)
from sparkfleet.launch.host.memory_guard import Guard, GuardReason

NAMES = ("spark-01", "spark-02")
ADDRESSES = dict(zip(NAMES, ("10.0.0.1", "10.0.0.2"), strict=True))
SOLO, RAY, MP = "uni", "ray", "mp"
SIZES = {SOLO: 1, RAY: 2, MP: 2}
RANKS = [(executor, rank) for executor, size in SIZES.items() for rank in range(size)]
API, ENGINE, WORKER, RAYLET = 100, 200, 300, 400
IDLE = {
    "vllm:num_requests_running": 0.0,
    "vllm:num_requests_waiting": 0.0,
    "vllm:generation_tokens_total": 50.0,
    "vllm:iteration_tokens_total_count": 9.0,
}
BUSY = {**IDLE, "vllm:num_requests_running": 2.0}
TITLES = {SOLO: "VLLM::EngineCore", RAY: "ray::RayWorkerProc", MP: "VLLM::Worker_TP{rank}"}


def sample(at: float, counters: Mapping[str, float] = IDLE, **more: float) -> Mapping[str, float]:
    return {**counters, "at": at, **{f"vllm:{name}": value for name, value in more.items()}}


HEALTHY = EndpointLook(status=200, limit=5.0, stall=20.0, samples=(sample(0.0), sample(1.0)))


def describe(executor: str) -> DeploymentRecord:
    hosts = NAMES[: SIZES[executor]]
    nodes = {name: ADDRESSES[name] for name in hosts} if executor == RAY else {}
    return DeploymentRecord(
        port=8000, tp=len(hosts), executor=executor, hosts=hosts, ray_nodes=nodes, ready_timeout=900
    )


def host(executor: str, rank: int, **fields: Any) -> HostLook:
    """Return a host whose rank serves."""
    roles = ["ray"] if executor == RAY else []
    roles += ["serve"] if rank == 0 or executor == MP else []
    found = [EngineProcess(pid=API, state="S", title="vllm serve /m")] if "serve" in roles else []
    if rank == 0:
        found.append(EngineProcess(pid=ENGINE, state="S", title="VLLM::EngineCore"))
    if executor == RAY:
        found.append(EngineProcess(pid=RAYLET, state="S", title="/opt/raylet --port=1"))
    user = ENGINE if executor == SOLO else WORKER
    if executor != SOLO:
        title = TITLES[executor].format(rank=rank)
        found.append(EngineProcess(pid=WORKER, state="S", title=title))
    default: dict[str, Any] = {
        "hash": "h1",
        "about": describe(executor),
        "roles": {name: RoleLook(pid=API, age=60.0) for name in roles},
        "processes": tuple(found),
        "gpu": (GpuProcess(pid=user, name="vllm", memory=8 << 30),),
        "rails": {"enp1s0f0np0": True},
        "endpoint": HEALTHY if rank == 0 else None,
    }
    return HostLook(**{**default, **fields})


def look(executor: str, changed: Mapping[int, Mapping[str, Any]] | None = None) -> HealthLook:
    """Return a check of a serving deployment, with the given fields of hosts changed."""
    nodes = {ADDRESSES[name]: 1.0 for name in NAMES} if executor == RAY else None
    hosts = {
        name: host(executor, rank, **(changed or {}).get(rank, {}))
        for rank, name in enumerate(NAMES[: SIZES[executor]])
    }
    return HealthLook(hosts=hosts, nodes=nodes)


def without(executor: str, rank: int, *pids: int) -> tuple[EngineProcess, ...]:
    return tuple(entry for entry in host(executor, rank).processes if entry.pid not in pids)


def suspended(executor: str, rank: int, pid: int) -> tuple[EngineProcess, ...]:
    return tuple(
        replace(entry, state="T") if entry.pid == pid else entry
        for entry in host(executor, rank).processes
    )


def progress(step: RunStep) -> RunProgress:
    return RunProgress(run="r", holder={}, step=step, previous=PreviousDeployment())


@pytest.mark.parametrize("executor", SIZES)
def test_what_answers_on_all_ranks_serves(executor: str) -> None:
    health = judge_health(look(executor))
    assert health.state is HealthState.SERVING
    assert not health.should_relaunch
    assert [rank.alive for rank in health.ranks] == [True] * SIZES[executor]
    assert [rank.gpu_memory for rank in health.ranks] == [8 << 30] * SIZES[executor]


@pytest.mark.parametrize(("executor", "rank"), RANKS)
def test_a_killed_rank_is_lost(executor: str, rank: int) -> None:
    pid = ENGINE if executor == SOLO else WORKER
    changed: dict[str, Any] = {"processes": without(executor, rank, pid), "gpu": ()}
    if executor == SOLO:  # the server still runs, and titles of other releases prove nothing
        changed["endpoint"] = EndpointLook(status=503, limit=5.0)
    health = judge_health(look(executor, {rank: changed}))
    if executor == SOLO:
        assert health.state is HealthState.WEDGED
        assert "answered 503" in health.reason
    else:
        assert health.state is HealthState.RANK_LOST
        assert f"the worker process of vLLM on {NAMES[rank]} no longer exists" in health.reason
        assert [entry.alive for entry in health.ranks].count(False) == 1
    assert (health.host, health.rank) == (NAMES[rank], rank)
    assert health.should_relaunch
    assert "cluster.up" in health.fix


@pytest.mark.parametrize("executor", [RAY, MP])
def test_all_workers_that_vanished_are_lost_while_the_engine_lives(executor: str) -> None:
    gone = {rank: {"processes": without(executor, rank, WORKER), "gpu": ()} for rank in (0, 1)}
    health = judge_health(look(executor, gone))
    assert health.state is HealthState.RANK_LOST
    assert "also lost: 1 on spark-02" in health.reason


@pytest.mark.parametrize(("executor", "rank"), RANKS)
def test_a_role_that_died_is_a_lost_rank_with_its_last_line(executor: str, rank: int) -> None:
    role = "ray" if executor == RAY else "serve"
    roles = {**host(executor, rank).roles, role: RoleLook(pid=API, age=None)}
    logs = {role: LogEnd(lines=("loading", "\x1b[31mCUDA error\x1b[0m: out of memory"), at=1000.0)}
    health = judge_health(look(executor, {rank: {"roles": roles, "logs": logs}}))
    assert health.state is HealthState.RANK_LOST
    assert f"{role} died on {NAMES[rank]}" in health.reason
    assert health.since == 1000.0
    assert health.ranks[rank].last_line == "CUDA error: out of memory"


@pytest.mark.parametrize(("executor", "rank"), [(RAY, 0), (RAY, 1), (MP, 0), (MP, 1)])
def test_a_rank_without_a_process_on_its_gpu_is_lost(executor: str, rank: int) -> None:
    health = judge_health(look(executor, {rank: {"gpu": ()}}))
    assert health.state is HealthState.RANK_LOST
    assert f"no process of the deployment is on the GPU of {NAMES[rank]}" in health.reason
    foreign = (GpuProcess(pid=9, name="Xorg", memory=1),)
    health = judge_health(look(executor, {rank: {"gpu": foreign}}))
    assert health.state is HealthState.RANK_LOST


@pytest.mark.parametrize("executor", SIZES)
def test_gpus_that_list_no_process_of_any_rank_prove_nothing(executor: str) -> None:
    unlisted = {rank: {"gpu": ()} for rank in range(SIZES[executor])}
    assert judge_health(look(executor, unlisted)).state is HealthState.SERVING


@pytest.mark.parametrize("executor", [RAY, MP])
def test_a_release_without_titles_is_judged_by_its_gpus(executor: str) -> None:
    def untitled(rank: int) -> dict[str, Any]:
        renamed = [replace(e, title="python3 -c spawn") for e in host(executor, rank).processes]
        return {"processes": tuple(renamed)}

    plain = {rank: untitled(rank) for rank in (0, 1)}
    assert judge_health(look(executor, plain)).state is HealthState.SERVING
    lost = {0: plain[0], 1: {**plain[1], "gpu": ()}}
    assert judge_health(look(executor, lost)).state is HealthState.RANK_LOST


def test_a_node_that_ray_has_lost_is_a_lost_rank() -> None:
    seen = replace(look(RAY), nodes={ADDRESSES["spark-01"]: 1.0})
    health = judge_health(seen)
    assert health.state is HealthState.RANK_LOST
    assert health.host == "spark-02"
    assert "Ray no longer lists spark-02 (node 10.0.0.2)" in health.reason
    assert judge_health(replace(seen, nodes=None)).state is HealthState.SERVING  # not asked


@pytest.mark.parametrize(("executor", "rank"), RANKS)
def test_a_host_that_was_restarted_has_lost_its_rank(executor: str, rank: int) -> None:
    roles = {name: RoleLook(pid=API, age=None) for name in host(executor, rank).roles}
    changed = {"rebooted": True, "roles": roles, "processes": (), "gpu": ()}
    health = judge_health(look(executor, {rank: changed}))
    assert health.state is HealthState.RANK_LOST
    assert f"{NAMES[rank]} was rebooted after cluster.up" in health.reason


def test_the_guard_is_the_cause_of_what_it_ended() -> None:
    reason = GuardReason(at=0.0, phase="serving", available=1, limit=2)
    roles = {"serve": RoleLook(pid=API, age=None)}
    guard = Guard(serving=2, samples=1, reason=reason)
    health = judge_health(look(MP, {1: {"guard": guard, "roles": roles}}))
    assert health.state is HealthState.RANK_LOST
    assert "memory guard: " in health.reason
    assert "gpu-memory-utilization" in health.fix
    armed = Guard(serving=2, samples=1)
    assert judge_health(look(MP, {1: {"guard": armed}})).state is HealthState.SERVING


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"hash": None}, "no deployment is recorded on spark-02"),
        ({"hash": "h2"}, "spark-02 runs another deployment"),
    ],
)
def test_a_host_that_does_not_run_its_part_is_a_lost_rank(
    fields: dict[str, Any], says: str
) -> None:
    health = judge_health(look(MP, {1: fields}))
    assert health.state is HealthState.RANK_LOST
    assert says in health.reason
    assert health.rank == 1


def test_a_head_without_a_record_is_the_lost_rank() -> None:
    health = judge_health(look(MP, {0: {"hash": None, "about": DeploymentRecord()}}))
    assert (health.state, health.rank) == (HealthState.RANK_LOST, 0)
    assert health.ranks[1].alive


def list_processes() -> Iterator[tuple[str, int, int]]:
    for executor, rank in RANKS:
        for entry in host(executor, rank).processes:
            yield executor, rank, entry.pid


@pytest.mark.parametrize(("executor", "rank", "pid"), list(list_processes()))
def test_a_process_that_is_suspended_wedges_the_cluster(executor: str, rank: int, pid: int) -> None:
    health = judge_health(look(executor, {rank: {"processes": suspended(executor, rank, pid)}}))
    assert health.state is HealthState.WEDGED
    assert (health.host, health.rank) == (NAMES[rank], rank)
    assert f"pid {pid}" in health.reason
    assert health.should_relaunch


def test_a_paused_container_wedges_the_cluster() -> None:
    health = judge_health(look(MP, {1: {"containers": {"serve": "paused"}}}))
    assert health.state is HealthState.WEDGED
    assert "the container of serve on spark-02 is paused" in health.reason
    running = look(MP, {1: {"containers": {"serve": "running"}}})
    assert judge_health(running).state is HealthState.SERVING


@pytest.mark.parametrize("executor", SIZES)
@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        (EndpointLook(status=0, error="timed out", limit=5.0), "no answer within 5 s: timed out"),
        (EndpointLook(status=503, limit=5.0), "answered 503: the engine is dead"),
    ],
)
def test_an_endpoint_that_is_not_healthy_is_wedged(
    executor: str, endpoint: EndpointLook, says: str
) -> None:
    health = judge_health(look(executor, {0: {"endpoint": endpoint}}))
    assert health.state is HealthState.WEDGED
    assert says in health.reason
    assert health.host == "spark-01"


def stalled(*samples: Mapping[str, float], **fields: Any) -> HealthLook:
    endpoint = replace(HEALTHY, samples=samples)
    return look(RAY, {0: {"endpoint": endpoint, **fields}})


def test_requests_without_a_token_are_wedged() -> None:
    health = judge_health(stalled(sample(0.0, BUSY), sample(21.0, BUSY)))
    assert health.state is HealthState.WEDGED
    assert health.reason == "no token for 21 s while 2 requests are running or waiting"


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (sample(0.0, BUSY), sample(21.0, BUSY, generation_tokens_total=51.0)),
        (sample(0.0, BUSY), sample(21.0, BUSY, iteration_tokens_total_count=10.0)),  # a long prompt
        (sample(0.0, BUSY), sample(21.0, IDLE)),
        (sample(0.0, IDLE), sample(21.0, IDLE)),
        (sample(0.0, BUSY), sample(3.0, BUSY)),  # a step can take that long
    ],
)
def test_requests_that_are_worked_on_serve(
    first: Mapping[str, float], last: Mapping[str, float]
) -> None:
    assert judge_health(stalled(first, last)).state is HealthState.SERVING


def test_requests_that_wait_for_a_compiler_are_no_reason_to_relaunch() -> None:
    health = judge_health(stalled(sample(0.0, BUSY), sample(21.0, BUSY), compilers=("ptxas",)))
    assert health.state is HealthState.DEGRADED
    assert "ptxas compiles kernels on spark-01" in health.reason
    assert not health.should_relaunch


@pytest.mark.parametrize(
    ("probe", "state"),
    [
        (ProbeLook(status=200, limit=30.0), HealthState.SERVING),
        (ProbeLook(status=500, error="EngineCore died", limit=30.0), HealthState.WEDGED),
        (ProbeLook(status=0, error="timed out", limit=30.0), HealthState.WEDGED),
    ],
)
def test_a_request_of_one_token_says_that_it_decided(probe: ProbeLook, state: HealthState) -> None:
    health = judge_health(replace(look(MP), probe=probe))
    assert health.state is state
    assert health.probed
    assert "a one-token request" in health.reason
    assert not judge_health(look(MP)).probed


@pytest.mark.parametrize("executor", [RAY, MP])
@pytest.mark.parametrize("name", NAMES)
def test_a_host_that_is_cut_off_is_unknown(executor: str, name: str) -> None:
    seen = look(executor)
    rest = {host: entry for host, entry in seen.hosts.items() if host != name}
    health = judge_health(replace(seen, hosts=rest, errors={name: "timed out"}))
    assert health.state is HealthState.UNKNOWN
    assert health.host == name
    assert f"{name} was not reached: timed out" in health.reason
    assert not health.should_relaunch  # a host that is away is waited for
    assert health.ranks[NAMES.index(name)].alive is None


def test_a_host_that_is_not_of_the_deployment_may_be_cut_off() -> None:
    seen = replace(look(SOLO), errors={"spark-02": "timed out"})
    assert judge_health(seen).state is HealthState.SERVING


def test_a_host_outside_what_was_asked_is_unknown() -> None:
    seen = look(MP)
    health = judge_health(replace(seen, hosts={"spark-01": seen.hosts["spark-01"]}))
    assert health.state is HealthState.UNKNOWN
    assert "spark-02 has rank 1" in health.reason


def test_hosts_without_a_record_are_stopped() -> None:
    health = judge_health(HealthLook(hosts={name: HostLook() for name in NAMES}))
    assert health.state is HealthState.STOPPED
    assert not health.should_relaunch  # what a person stopped stays stopped
    assert health.ranks == ()
    orphan = HostLook(processes=(EngineProcess(pid=1, state="S", title="vllm serve"),))
    health = judge_health(HealthLook(hosts={"spark-01": HostLook(), "spark-02": orphan}))
    assert health.state is HealthState.STOPPED
    assert health.reason.startswith("orphaned: spark-02")


def test_no_record_and_a_host_that_is_cut_off_is_unknown() -> None:
    seen = HealthLook(hosts={"spark-01": HostLook()}, errors={"spark-02": "timed out"})
    assert judge_health(seen).state is HealthState.UNKNOWN


def test_a_run_that_holds_the_lock_is_starting() -> None:
    begun = {"progress": progress(RunStep.SERVING), "busy": True}
    unready = EndpointLook(status=0, error="refused", limit=5.0)
    health = judge_health(look(RAY, {0: {**begun, "endpoint": unready}, 1: begun}))
    assert health.state is HealthState.STARTING
    assert health.reason == "a run is in progress, last step serving"
    other = judge_health(look(RAY, {0: {"busy": True}}))  # cluster.lock, or a run that only looks
    assert other.state is HealthState.SERVING


def test_ranks_of_a_run_that_was_killed_may_still_load() -> None:
    unready = EndpointLook(status=0, error="refused", limit=5.0)
    young = {"serve": RoleLook(pid=API, age=10.0)}
    changed = {"progress": progress(RunStep.SERVING), "endpoint": unready, "roles": young}
    assert judge_health(look(MP, {0: changed})).state is HealthState.STARTING
    old = {"serve": RoleLook(pid=API, age=901.0)}
    assert judge_health(look(MP, {0: {**changed, "roles": old}})).state is HealthState.WEDGED


def test_an_interrupted_run_that_serves_is_degraded_and_one_that_does_not_is_stopped() -> None:
    changed = {"progress": progress(RunStep.READY)}
    health = judge_health(look(MP, {1: changed}))
    assert health.state is HealthState.DEGRADED
    assert "interrupted after ready on spark-02" in health.reason
    begun = HostLook(progress=progress(RunStep.STOPPED))
    health = judge_health(HealthLook(hosts={"spark-01": begun, "spark-02": HostLook()}))
    assert health.state is HealthState.STOPPED
    assert "a run was interrupted after stopped-previous" in health.reason


@pytest.mark.parametrize(("executor", "rank"), RANKS)
def test_a_rail_without_a_carrier_degrades(executor: str, rank: int) -> None:
    rails = {"enp1s0f0np0": True, "enP2p1s0f0np0": False}
    health = judge_health(look(executor, {rank: {"rails": rails}}))
    assert health.state is HealthState.DEGRADED
    assert f"no carrier on enP2p1s0f0np0 of {NAMES[rank]}" in health.reason
    assert health.works
    assert not health.should_relaunch


def test_a_gpu_that_does_not_answer_degrades() -> None:
    health = judge_health(look(MP, {1: {"gpu": None, "gpu_error": "no answer within 5 s"}}))
    assert health.state is HealthState.DEGRADED
    assert "nvidia-smi on spark-02" in health.reason
    absent = judge_health(look(MP, {1: {"gpu": None}}))  # no such program: another machine
    assert absent.state is HealthState.SERVING


@pytest.mark.parametrize("rank", [0, 1])
def test_a_gpu_that_its_hardware_slows_degrades(rank: int) -> None:
    hot = GpuState(power=90.0, temperature=95.0, clock=900.0, slowed=("hardware thermal limit",))
    health = judge_health(look(MP, {rank: {"gpu_state": hot}}))
    assert health.state is HealthState.DEGRADED
    assert f"the GPU of {NAMES[rank]} is slowed by hardware thermal limit (90 W" in health.reason
    capped = replace(hot, slowed=("power cap",))  # as it is at full load
    assert judge_health(look(MP, {rank: {"gpu_state": capped}})).state is HealthState.SERVING


@pytest.mark.parametrize("rank", [0, 1])
def test_a_low_clock_degrades_under_load_alone(rank: int) -> None:
    low = GpuState(power=14.0, temperature=50.0, clock=507.0)
    loaded = replace(
        HEALTHY, samples=(sample(0.0, BUSY), sample(1.0, BUSY, generation_tokens_total=90.0))
    )
    changed: dict[int, dict[str, Any]] = {0: {"endpoint": loaded}, 1: {}}
    changed[rank]["gpu_state"] = low
    health = judge_health(look(MP, changed))
    assert health.state is HealthState.DEGRADED
    assert f"the GPU of {NAMES[rank]} runs at 507 MHz while requests run" in health.reason
    assert judge_health(look(MP, {rank: {"gpu_state": low}})).state is HealthState.SERVING


def test_under_ray_the_head_has_the_last_line_of_every_rank() -> None:
    lines = (
        "(RayWorkerProc pid=98, ip=10.0.0.2) NCCL WARN timeout",
        "INFO: 127.0.0.1 - GET /health 200 OK",
    )
    changed: dict[int, dict[str, Any]] = {
        0: {"logs": {"serve": LogEnd(lines=lines, at=5.0)}},
        1: {"processes": without(RAY, 1, WORKER), "gpu": ()},
    }
    health = judge_health(look(RAY, changed))
    assert health.ranks[1].last_line == lines[0]
    assert health.since is None  # the head's log goes on


OFF = 1796000000.0
LOADED = "INFO 11-29 00:11:50 [loggers.py:1] Engine 000: Running: 3 reqs, Waiting: 0 reqs"
IDLING = "INFO 11-29 00:11:50 [loggers.py:1] Engine 000: Running: 0 reqs, Waiting: 0 reqs"


@pytest.mark.parametrize("executor", [RAY, MP])
@pytest.mark.parametrize(
    ("clean", "line", "at", "says"),
    [
        (False, LOADED, OFF - 5, "under load (3 requests ran), without a shutdown"),
        (False, LOADED, OFF - 500, "it went down at"),
        (False, LOADED.replace("3 reqs", f"{'9' * 5000} reqs"), OFF - 5, "it went down at"),
        (False, IDLING, OFF - 5, "it went down at"),
        (True, LOADED, OFF - 5, "it was shut down at"),
        (None, LOADED, OFF - 5, "nothing has been started there since"),
    ],
    ids=["loaded", "long before", "thousands of digits", "idle", "clean", "unknown"],
)
def test_a_host_that_went_off_says_how_and_whether_under_load(
    executor: str, *, clean: bool | None, line: str, at: float, says: str
) -> None:
    logs = {"serve": LogEnd(lines=(line,), at=at)}
    gone = {"rebooted": True, "last_shutdown": LastShutdown(clean=clean, at=OFF), "processes": ()}
    health = judge_health(look(executor, {0: {"logs": logs}, 1: gone}))
    assert health.state is HealthState.RANK_LOST
    assert says in health.reason
    is_loaded = "under load" in says
    assert ("under load" in health.reason) is is_loaded
    assert ("gpu_clock_max" in health.fix) is is_loaded

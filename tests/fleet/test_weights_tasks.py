"""`weights.*` as a user types them, on two lab hosts."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.lab.plan import CONTROL
from tests.commandline import PATIENCE, Done, becomes, command_line, run_as_typed
from tests.doubles.hub_server import HubServer

pytestmark = pytest.mark.fleet

HOSTS = ("spark-01", "spark-02")
MODEL = "/home/nvidia/vllm/tiny"
SHARDS = {f"model-{at}-of-2.safetensors": bytes([at]) * 300_000 for at in (1, 2)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model of two shards, whole enough for the checks."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    folder.mkdir()
    for name, data in SHARDS.items():
        header = json.dumps(
            {"w": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}
        )
        (folder / name).write_bytes(len(header).to_bytes(8, "little") + header.encode() + data)
    weights = {"w1": "model-1-of-2.safetensors", "w2": "model-2-of-2.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    (folder / "config.json").write_text("{}")
    return folder


class Type:
    """Types tasks of sparkfleet, with the model in `source` unless given otherwise."""

    def __init__(self, inventory: Path, source: Path) -> None:
        settings = (f"weights_source={source}", "vllm_model=tiny")
        given = (word for setting in settings for word in ("--set", setting))
        self.options = ("--inventory", str(inventory), *given)

    def __call__(self, task: str, *words: str) -> Done:
        return run_as_typed(task, *self.options, *words)

    def start(self, task: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command_line(task, *self.options, *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture(scope="module")
def run(lab: LabFleet, source: Path) -> Type:
    return Type(lab.inventory, source)


@pytest.fixture
def bare(run: Type) -> None:
    """Leave nothing in the home of the hosts' user but the key that lets it in."""
    own = ["find", "/home/nvidia", "-mindepth", "1", "-maxdepth", "1", "!", "-name", ".ssh"]
    for host in HOSTS:
        fleet.run_on(host, [*own, "-exec", "rm", "-rf", "{}", "+"])


@pytest.fixture
def staged(run: Type) -> None:
    """See to it that both hosts have the model."""
    done = run("weights.stage")
    assert done.code == 0, done.output


def _in(host: str, script: str) -> str:
    return fleet.run_on(host, ["sh", "-c", f"cd {MODEL} && {script}"]).stdout


@pytest.mark.usefixtures("bare")
def test_a_plan_shows_what_each_node_lacks_and_writes_nothing(run: Type) -> None:
    done = run("weights.plan")
    assert done.code == 0, done.output
    assert done.output.startswith("weights.plan  inventory ")
    rows = [line.split() for line in done.output.splitlines() if "4 files, 600 kB" in line]
    assert [(row[0], " ".join(row[8:])) for row in rows] == [
        ("spark-01", "this machine"),
        ("spark-02", "spark-01"),
    ]
    assert fleet.run_on("spark-01", ["ls", "-A", "/home/nvidia"]).stdout.split() == [".ssh"]


@pytest.mark.usefixtures("bare")
def test_plan_verify_and_list_speak_json(run: Type) -> None:
    plans = json.loads(run("weights.plan", "--output", "json").output)["plans"]
    assert [(one["host"], one["lacks"], one["senders"]) for one in plans] == [
        ("spark-01", 600_242, ["this machine"]),
        ("spark-02", 600_242, ["spark-01"]),
    ]
    (first, *_) = json.loads(run("weights.verify", "--output", "json").output)["verdicts"]
    assert (first["check"], first["seen"]) == ("weights.missing", "none of them")
    assert json.loads(run("weights.list", "--output", "json").output)["hosts"] == {
        name: [] for name in HOSTS
    }


@pytest.mark.usefixtures("bare")
def test_staging_copies_every_file_once_over_the_fabric(run: Type) -> None:
    done = run("weights.stage")
    assert done.code == 0, done.output
    assert "spark-01 -> spark-02: 600 kB" in done.output
    assert done.output.count("all verified") == 2
    (shared,) = [line for line in done.output.splitlines() if "saw tmpfs" in line]
    assert "spark-01, spark-02" in shared
    assert all("model-2-of-2.safetensors" in _in(host, "ls") for host in HOSTS)


@pytest.mark.usefixtures("staged")
def test_a_second_run_sends_nothing_and_says_so(run: Type) -> None:
    done = run("weights.stage")
    assert done.output.count("complete: 600 kB; 0 bytes to send") == 2
    assert [done.recap(host)["changed"] for host in HOSTS] == [0, 0]


@pytest.mark.usefixtures("staged")
def test_c41_a_flipped_byte_is_found_named_and_repaired_alone(run: Type) -> None:
    _in("spark-02", "printf X | dd of=model-1-of-2.safetensors bs=1 seek=5000 conv=notrunc")
    found = run("weights.verify")
    assert found.code == 2
    assert f"spark-02: {MODEL}/model-1-of-2.safetensors" in found.output
    mended = run("weights.stage")
    assert mended.code == 0, mended.output
    assert "send 1 file, 300 kB" in mended.output
    assert mended.recap("spark-01")["changed"] == 0
    assert run("weights.verify", "--full").code == 0


@pytest.mark.usefixtures("staged")
def test_c42_a_shard_that_the_index_names_and_no_host_has_is_found(run: Type) -> None:
    _in("spark-01", "rm model-2-of-2.safetensors")
    found = run("weights.verify")
    assert found.code == 2
    assert "model-2-of-2.safetensors" in found.output
    mended = run("weights.stage")
    assert "spark-02 -> spark-01: 300 kB" in mended.output
    assert run("weights.verify").code == 0


@pytest.mark.usefixtures("bare", "staged")
def test_models_are_listed_and_only_staged_ones_are_pruned(run: Type) -> None:
    fleet.run_on("spark-01", ["mkdir", "-p", "/home/nvidia/vllm/foreign"])
    fleet.run_on("spark-01", ["sh", "-c", "echo 1 >/home/nvidia/vllm/foreign/x.safetensors"])
    listed = run("weights.list").output
    assert listed.count("staged by sparkfleet") - listed.count("not staged by sparkfleet") == 2
    assert "nothing was removed" in run("weights.prune", "tiny").output
    assert run("weights.prune", "foreign", "--yes").code != 0
    assert run("weights.prune", "tiny", "--yes").code == 0
    assert " tiny " not in run("weights.list").output
    assert fleet.run_on("spark-01", ["ls", "/home/nvidia/vllm/foreign"]).stdout == "x.safetensors\n"


@pytest.mark.parametrize("strategy", ["each", "push"])
def test_without_fan_out_this_machine_sends_each_node_its_own_copy(
    run: Type, strategy: str
) -> None:
    run("weights.prune", "tiny", "--yes")
    done = run("weights.stage", "--set", f"weights_strategy={strategy}")
    assert done.code == 0, done.output
    assert "spark-01 -> spark-02" not in done.output
    assert done.output.count("all verified") == 2


def test_push_needs_something_to_send(run: Type) -> None:
    done = run("weights.stage", "--set", "weights_strategy=push", "--set", "weights_source=")
    assert done.code == 5
    assert "is not a local folder" in done.output


def test_a_gated_model_is_refused_before_a_host_starts_and_offline_asks_no_server(
    run: Type, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with HubServer(address=CONTROL) as server:
        server.add("meta/gated", {"config.json": b"[1]", "w.bin": b"w"}, gated=True)
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        given = ("--set", "weights_source=", "--set", "vllm_model=meta/gated")
        for options in ((), ("--check",)):
            done = run("weights.stage", *given, *options)
            assert done.code == 5
            assert "meta/gated is gated, and there is no token" in done.output
        done = run("weights.plan", *given)
        assert done.code == 5
        assert "the Hub" in done.output
        assert "meta/gated is gated, and there is no token" in done.output
        for task in ("weights.stage", "weights.plan"):
            done = run(task, *given, "--set", "weights_offline=true")
            assert done.code == 2
            assert "no source for 2 files, first" in done.output
        assert server.sent == 0


def _has_large_part(host: str) -> bool:
    """Return whether a host has more than 1 MB of a file that is not complete yet."""
    find = ["find", "/home/nvidia/vllm", "-name", "*.incomplete", "-size", "+1000k"]
    return bool(fleet.run_on(host, find, check=False).stdout)


def test_ctrl_c_in_the_middle_keeps_what_arrived_and_says_so(
    run: Type, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def shown() -> dict[str, int]:
        plans = json.loads(run("weights.plan", *given, "--output", "json").output)["plans"]
        return {one["host"]: one["lacks"] for one in plans}

    given = ("--set", "weights_source=", "--set", "vllm_model=org/slow")
    with HubServer(address=CONTROL, rate=2_000_000) as server:
        server.add("org/slow", {"config.json": b"{}", "w.bin": bytes(6_000_000)})
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        typed = run.start("weights.stage", *given)
        before = server.sent
        assert becomes(lambda: server.sent >= before + 3_000_000)
        server.rate = 50_000  # the rest takes a minute
        assert becomes(lambda: all(map(_has_large_part, HOSTS)))
        typed.send_signal(signal.SIGINT)
        output, _ = typed.communicate(timeout=PATIENCE)
        assert typed.returncode == 130
        assert "completed parts are kept; the next run resumes the transfer" in output
        assert all(0 < lacks < 5_000_000 for lacks in shown().values())
        server.rate = None
        assert run("weights.stage", *given).code == 0
        assert server.sent < before + 8_000_000
        assert set(shown().values()) == {0}


@pytest.mark.usefixtures("staged")
def test_a_misspelt_model_is_guessed(run: Type) -> None:
    done = run("weights.prune", "tinny")
    assert done.code == 5
    assert "did you mean 'tiny'?" in done.output


def test_what_is_not_there_is_refused_before_a_host_is_touched(run: Type) -> None:
    done = run("weights.plan", "--set", "weights_source=/nowhere")
    assert done.code == 5
    assert "folder /nowhere not found on this machine" in done.output

"""Files of other tools serve the lab's model with the real vLLM once their model is replaced."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkfleet.lab.fleet import LabFleet
from tests.commandline import LONGEST, Type, processes
from tests.documents import SEEDS

pytestmark = [pytest.mark.fleet, pytest.mark.e2e, pytest.mark.timeout(2 * LONGEST)]

FOLDER = SEEDS / "recipes-of-others"
MODEL = "tiny-spark"
# A simulated host has little memory; the lab's model has 256 positions.
SMALL = {
    "gpu-memory-utilization": "null",
    "kv-cache-memory-bytes": "33554432",
    "max-model-len": "256",
    "enforce-eager": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """A file, its model, what the command shows of it, and what a CPU does not have."""

    file: str
    model: str
    shown: tuple[str, ...]
    size: tuple[str, ...] = ("--solo",)
    lacks: tuple[str, ...] = ()


FILES = {
    "eugr": Theirs(
        file="eugr/glm-4.7-flash-awq.yaml",
        model="cyankiwi/GLM-4.7-Flash-AWQ-4bit",
        shown=("--served-model-name=glm-4.7-flash", "--max-num-batched-tokens 4096"),
    ),
    "sparkrun": Theirs(
        file="sparkrun/glm-4.7-flash-awq-vllm.yaml",
        model="cyankiwi/GLM-4.7-Flash-AWQ-4bit",
        shown=("--tool-call-parser glm47", "--max-num-seqs 64"),
    ),
    "nvidia": Theirs(
        file="nvidia/minimax-m2.7-dgx-spark-2gpu.yaml",
        model="nvidia/MiniMax-M2.7-NVFP4",
        shown=("--reasoning-parser minimax_m2", "--nnodes=2", "--trust-remote-code"),
        size=("--tp", "2"),
        lacks=("kv-cache-dtype", "load-format"),
    ),
}


@pytest.mark.thorough  # tests/fleet/test_recipes_used.py has the same with the stand-in
@pytest.mark.parametrize("kind", sorted(FILES))
def test_a_file_of_others_serves_after_its_model_is_replaced(
    kind: str, run: Type, lab: LabFleet, tmp_path: Path
) -> None:
    theirs = FILES[kind]
    path = tmp_path / Path(theirs.file).name
    text = (FOLDER / theirs.file).read_text()
    assert theirs.model in text
    path.write_text(text.replace(theirs.model, MODEL))
    options = SMALL | dict.fromkeys(theirs.lacks, "null")
    small = ", ".join(f"{name}: {value}" for name, value in options.items())
    words = ["cluster.up", *theirs.size, "--recipe", str(path), "--yes"]
    done = run(*words, "--set", f"vllm_args={{{small}}}")
    assert done.code == 0, done.output
    assert "12*17 -> 204" in done.output
    (serve, *_) = [each for each in processes(lab.hosts[0].name).values() if "vllm serve" in each]
    for part in theirs.shown:
        assert part in serve
    assert run("cluster.down").code == 0

"""Files of other tools serve on lab hosts once their model is replaced, with the stand-in engine.

`tests/e2e/test_recipes_of_others.py` does the same with the real one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkfleet.lab.fleet import LabFleet
from tests.commandline import processes, type_command
from tests.documents import SEEDS
from tests.standin import engine

pytestmark = [
    pytest.mark.usefixtures("standin"),
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
HOSTS = ("spark-01", "spark-02")
MODEL = "standin"
FOLDER = SEEDS / "recipes-of-others"
FILES = {  # file, its model, the option of vLLM that shows whose recipe it is, and Sparks
    "eugr": ("eugr/glm-4.7-flash-awq.yaml", "cyankiwi/GLM-4.7-Flash-AWQ-4bit", "glm47", 1),
    "sparkrun": (
        "sparkrun/minimax-m2.7-nvfp4-vllm.yaml",
        "nvidia/MiniMax-M2.7-NVFP4",
        "instanttensor",
        2,
    ),
    "nvidia": ("nvidia/minimax-m2.7-dgx-spark-2gpu.yaml", "nvidia/MiniMax-M2.7-NVFP4", "fp8", 2),
}
SERVED = {"eugr": "glm-4.7-flash"}  # whose file names the served model
# A simulated host has little memory, and vLLM of the stand-in counts none.
SMALL = (
    "vllm_args={gpu-memory-utilization: null, kv-cache-memory-bytes: 33554432, max-model-len: 256}"
)


@pytest.mark.parametrize(
    "kind", ["eugr", "nvidia", pytest.param("sparkrun", marks=pytest.mark.thorough)]
)
def test_a_file_of_others_serves_after_its_model_is_replaced(
    kind: str, lab: LabFleet, tmp_path: Path
) -> None:
    name, model, shown, count = FILES[kind]
    path = tmp_path / Path(name).name
    path.write_text((FOLDER / name).read_text().replace(model, MODEL))
    inventory = engine.inventory(lab, tmp_path)
    size = ("--tp", str(count)) if count > 1 else ("--solo",)
    words = ("cluster.up", *size, "--recipe", str(path), "--set", SMALL, "--yes")
    done = type_command(*words, "--inventory", str(inventory))
    assert done.code == 0, done.output
    assert f"model {SERVED.get(kind, MODEL)}" in done.output
    (serve, *_) = [text for text in processes("spark-01").values() if "vllm serve" in text]
    assert shown in serve
    down = type_command("cluster.down", "--inventory", str(inventory))
    assert down.code == 0, down.output

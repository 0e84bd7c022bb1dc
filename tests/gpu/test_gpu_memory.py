"""The memory that vLLM logs on this machine's GPUs, against the estimate of `recipes.fit`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from sparkfleet.fit.kv_blocks import build_block_pool
from sparkfleet.fit.kv_cache import list_layer_caches
from sparkfleet.fit.weights import estimate_shape_weights
from sparkfleet.lab import fleet
from sparkfleet.lab.engine.kinds import GPU
from sparkfleet.lab.host.gpus import LabGpu
from tests.commandline import LONGEST, within
from tests.models import CONFIGS, GIB, shape

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(LONGEST)]

LENGTH = 8192  # tokens
MODELS = ("qwen3-30b-a3b", "deepseek-v2-lite")  # one a GPU, at the same time
OPTIONS = ("--load-format", "dummy", "--skip-tokenizer-init", "--enforce-eager", "--max-model-len",
           str(LENGTH), "--gpu-memory-utilization", "0.9")  # fmt: skip
LOADED = re.compile(r"Model loading took ([\d.]+) GiB")
CACHE = re.compile(r"Available KV cache memory: ([\d.]+) GiB")
CONCURRENCY = re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")
LEFT_OUT = 0.008  # norms, biases and buffers, which the estimate leaves out


def _start(name: str, folder: Path, place: int) -> subprocess.Popen[bytes]:
    """Start vLLM with a model's configuration on one GPU."""
    (folder / name).mkdir()
    (folder / name / "config.json").write_text((CONFIGS / f"{name}.json").read_text())
    engine = GPU.venv_path() / "bin"
    settings = {"CUDA_VISIBLE_DEVICES": str(place), "HF_HUB_OFFLINE": "1",
                "VLLM_NO_USAGE_STATS": "1", "PATH": f"{engine}:{os.environ['PATH']}"}  # fmt: skip
    line = [str(engine / "python"), str(engine / "vllm"), "serve", str(folder / name), *OPTIONS]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [*line, "--port", str(8100 + place)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **settings},
            start_new_session=True,
        )


def test_memory_is_what_was_estimated(gpus: tuple[LabGpu, ...], tmp_path: Path) -> None:
    fleet.remove_fleet()
    at_once = len(set(gpus))
    for first in range(0, len(MODELS), at_once):
        _measure(MODELS[first : first + at_once], tmp_path)
    for name in MODELS:
        _compare(name, (tmp_path / f"{name}.log").read_text())


def _is_measured(log: Path, child: subprocess.Popen[bytes]) -> bool:
    """Return whether vLLM knows its memory, or has ended."""
    return bool(CONCURRENCY.search(log.read_text())) or child.poll() is not None


def _measure(names: Sequence[str], tmp_path: Path) -> None:
    """Run vLLM with each of the models, on a GPU each, until it knows its memory."""
    started = {name: _start(name, tmp_path, place) for place, name in enumerate(names)}
    try:
        for name, child in started.items():
            within(LONGEST, partial(_is_measured, tmp_path / f"{name}.log", child))
    finally:
        for child in started.values():
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _compare(name: str, log: str) -> None:
    """Check the figures of a log against the estimate."""
    loaded, cache, concurrency = (
        float(found[1]) if (found := pattern.search(log)) else 0.0
        for pattern in (LOADED, CACHE, CONCURRENCY)
    )
    assert concurrency, log[-3000:]
    own = shape(name)
    pool = build_block_pool(list_layer_caches(own, "auto"))
    assert pool.concurrency(cache * GIB, LENGTH, LENGTH) == pytest.approx(concurrency, rel=0.001)
    weights = estimate_shape_weights(own).resident
    assert weights.low / GIB - 0.01 <= loaded <= weights.high / GIB * (1 + LEFT_OUT) + 0.01

"""Every file of every rank of a pair with Docker, as it is to be.

The expected files lie in ``tests/golden/containers/<host>/``; see `test_rendered_files` for how to
write them anew.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.links import EnvVar
from tests.engines import deployed

FILES = Path(__file__).parent / "containers"
WRITE = bool(os.environ.get("SPARKFLEET_WRITE_GOLDEN"))
FABRIC = (
    EnvVar(name="NCCL_SOCKET_IFNAME", value="enp1s0f1np1", why="the fabric netdev"),
    EnvVar(name="NCCL_IB_ADDR_RANGE", value=None, why="baked into the image"),
)


def _files() -> Mapping[str, Mapping[str, str]]:
    ray = _rendered(Executor.RAY)
    without = _rendered(Executor.MP)
    return {**ray, **{f"{host}-mp": own for host, own in without.items()}}


def _rendered(executor: Executor) -> Mapping[str, Mapping[str, str]]:
    return deployed(
        FABRIC,
        hosts=2,
        executor=executor,
        engine_memory="110GiB",
        engine_user="host",
        vllm_args={"speculative-config": {"method": "mtp", "num_speculative_tokens": 1}},
        vllm_env={"HF_HUB_OFFLINE": 1},
    )[1]


ROWS = [(host, name) for host, own in _files().items() for name in own]


@pytest.mark.parametrize(("host", "name"), ROWS)
def test_a_rendered_file_is_as_it_is_to_be(host: str, name: str) -> None:
    path = FILES / host / name
    text = _files()[host][name]
    if WRITE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_no_expected_file_is_left_over() -> None:
    wanted = {FILES / host / name for host, name in ROWS}
    assert {path for path in FILES.rglob("*") if path.is_file()} == wanted


def test_rendered_scripts_pass_shellcheck() -> None:
    scripts = [str(path) for path in FILES.rglob("*.sh")]
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")

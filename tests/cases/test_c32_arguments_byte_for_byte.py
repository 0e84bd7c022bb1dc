"""C32: quotes of --speculative-config were lost, or backslashes kept, on the way to vLLM.

The way is the real one: the template, the line that sshd hands to the user's shell, the program
that writes the file, bash, and with a container engine its client and the container's first shell.
Only vLLM and `docker` are stubs, which write down their words.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from sparkfleet.commands import build_script_command
from sparkfleet.launch.deployment.deployment import render_deployment
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.deployment.node import DeploymentNode
from sparkfleet.launch.engines.container import ContainerEngine
from sparkfleet.launch.engines.engine import Engine
from sparkfleet.launch.engines.native import NativeEngine
from sparkfleet.vllm.arguments import format_vllm_args
from tests.engines import settings
from tests.gb10 import output

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
AWKWARD = ("", " ", "a b", "'", '"', "$HOME", "{}", "\\", "\\\\n", "é", "`id`", "a\n\nb", "\r\n",
           "-x", "*", "~", "!", "#", "a=b", "%s", "\\'", "]", "&", "\t")  # fmt: skip
VALUES = st.lists(TEXT | st.sampled_from(AWKWARD), min_size=1, max_size=6)
BRIEF = examples(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
STUB = """#!/bin/bash
printf '%s\\0' "$@" >{argv}
printf '%s\\0' "$ODD" >{odd}
"""
# a daemon that runs the image's bash: the words after the image's name, /sparkfleet being a mount
DOCKER = """#!/bin/bash
while [ "$1" != image ]; do shift; done
text=$(sed 's|/sparkfleet/|{folder}/|' "{folder}/container.sh")
exec bash -c "$text" "${{@:2}}"
"""


def _args(values: list[str]) -> Mapping[str, Any]:
    return {
        "speculative-config": {"method": "mtp", "odd": values},
        "some-text": values[0],
        "some-list": values,
        "again": {"repeat": values},
        **{f"x{number}": value for number, value in enumerate(values)},
    }


def _engine(kind: str, root: Path, folder: Path) -> Engine:
    if kind == "native":
        return NativeEngine(venv=str(root / "venv"))
    return ContainerEngine(
        cli=str(root / "docker"),
        cluster="default",
        image="image",
        folder=str(folder),
        weights=str(root),
        cache=str(root / "cache"),
    )


def _files(kind: str, root: Path, values: list[str], rank: int) -> Mapping[str, str]:
    """Return the files of one rank of two."""
    nodes = []
    for number in range(2):
        own = settings(
            f"spark-{number + 1}",
            engine=kind,
            vllm_args=_args(values),
            vllm_env={"ODD": values[0]},
            vllm_raw_args=["--raw", f"{{{values[0]}"],
        )
        runs = _engine(kind, root, root / ".sparkfleet" / "default")
        made = build_rank_environment(
            own, (), cluster="default", hf_home="/m", engine=runs.environment
        )
        nodes.append(
            DeploymentNode(
                settings=own,
                rank=number,
                address=f"192.168.100.{number + 1}",
                engine=runs,
                folder=str(root / ".sparkfleet" / "default"),
                weights=str(root),
                model=str(root / "org" / "model"),
                environment=made,
            )
        )
    files = render_deployment(
        "default", nodes, tp=2, pp=1, contents=["commit"], executor=Executor.MP
    ).files
    return files[f"spark-{rank + 1}"]


def _send(root: Path, files: Mapping[str, str]) -> None:
    """Write the files as a run does: by one line that a login shell reads, and its input."""
    request = {
        "do": "write",
        "cluster_dir": str(root / ".sparkfleet"),
        "cluster": "default",
        "contents": files,
    }
    command = build_script_command("deployment/processes", request)
    subprocess.run(["/bin/sh", "-c", command.line()], input=command.input, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o700)


def _ran(kind: str, root: Path, values: list[str], rank: int) -> tuple[list[str], str]:
    """Return the words that vLLM got after sparkfleet's own, and a variable of its environment."""
    stub = STUB.format(argv=root / "argv", odd=root / "odd")
    folder = root / ".sparkfleet" / "default"
    for path in (root / "venv" / "bin" / "vllm", root / "bin" / "vllm"):
        _program(path, stub)
    _program(root / "docker", DOCKER.format(folder=folder))
    _send(root, _files(kind, root, values, rank))
    env = {**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}"}
    subprocess.run(["bash", str(folder / "vllm-serve.sh")], env=env, check=True)
    words = (root / "argv").read_bytes().decode().split("\0")[:-1]
    return words, (root / "odd").read_bytes().decode().removesuffix("\0")


@pytest.mark.parametrize("kind", ["native", "docker"])
@pytest.mark.parametrize("rank", [0, 1])
@given(values=VALUES)
@BRIEF
def test_every_value_arrives_byte_for_byte(
    kind: str, rank: int, values: list[str], tmp_path: Path
) -> None:
    words, odd = _ran(kind, tmp_path, values, rank)
    wanted = [*format_vllm_args(_args(values)), "--raw", f"{{{values[0]}"]
    assert words[-len(wanted) :] == wanted
    assert odd == values[0]


def test_what_comes_back_after_a_failure_is_what_was_there(tmp_path: Path) -> None:
    files = {"nccl.env": "export A='\r\n é'\n"}
    _send(tmp_path, files)
    request = {"do": "survey", "cluster_dir": str(tmp_path / ".sparkfleet"), "cluster": "default",
               "files": ["nccl.env"], "venv": None}  # fmt: skip
    command = build_script_command("deployment/processes", request)
    done = subprocess.run(command.argv, input=command.input, capture_output=True, check=True)
    assert json.loads(done.stdout)["files"] == files


def test_the_recorded_value_with_backslashes_comes_from_another_tool(tmp_path: Path) -> None:
    assert "\\" in output("vllm-log.bad-speculative-config-backslashes.txt")
    words, _ = _ran("docker", tmp_path, ["x"], 0)
    text = words[words.index("--speculative-config") + 1]
    assert json.loads(text) == {"method": "mtp", "odd": ["x"]}
    assert "\\" not in text

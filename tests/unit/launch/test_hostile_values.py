"""No value leaves its place in a rendered script: every variable with hostile text, run by bash.

The checks of variables are passed by on purpose: what slips through them must do no harm either.
"""

from __future__ import annotations

import functools
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet import links
from sparkfleet.errors import InputError, Where
from sparkfleet.launch.deployment.deployment import _build_commands, render_deployment
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.deployment.node import DeploymentNode, ParallelConfig
from sparkfleet.launch.engines.choice import create_engine
from sparkfleet.launch.engines.container import HASH_PLACEHOLDER
from sparkfleet.launch.engines.native import NativeEngine
from sparkfleet.links import Fabric
from sparkfleet.model import Host, Value
from sparkfleet.recipes.settings import Settings
from sparkfleet.variables import VARIABLES, Kind
from tests import engines, gb10
from tests.budget import limit_cpu_time

RUN = "touch INJECTED"
ALONE = (
    f"a\n{RUN}\n#",
    f"a;{RUN};b",
    f"$({RUN})",
    f"`{RUN}`",
    f"'; {RUN}; '",
    f'"; {RUN}; "',
    f"a\r{RUN}\r#",
    f"a\r\n{RUN}\r\n",
    f"a\u2028{RUN}\u2029{RUN}\x85{RUN}",
    f"a\0\n{RUN}\n",
    f"a && {RUN} || {RUN} | {RUN} &",
    f"a\\\n{RUN}\n",
    f"A=1; {RUN}; B",
    f"}}}}{{{{ '{RUN}' }}}}\n{RUN}",
    f"-a\n{RUN}",
    f"a\nEOF\n{RUN}\n",
)
TOGETHER = ("".join(ALONE).replace("\0", ""),)
SOLO = 1
PAIR = 2
FEW = (
    ("docker", PAIR, Executor.RAY),
    ("podman", SOLO, Executor.RAY),
    ("native", PAIR, Executor.RAY),
    ("native", SOLO, Executor.RAY),
)
ALL = tuple((engine, *way) for engine in ("docker", "podman", "native") for way in (
    (SOLO, Executor.RAY), (PAIR, Executor.RAY), (PAIR, Executor.MP)
))  # fmt: skip
SHELL = r"""
exec() { printf '%s\0' "$@" >"${0##*/}.words"; }
mkdir() { :; }
sleep() { :; }
"""
DRIVER = r"""
for folder in "$1"/*/; do
    cd "$folder" || exit
    for script in *.sh; do bash "./$script" >/dev/null 2>&1; done
    env -i PATH="$PATH" bash -c '. ./nccl.env; env -0 >environment' >/dev/null 2>&1
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Position of a text: the value or a key of a variable, or another name."""

    label: str
    variables: Mapping[str, Any]
    file: str = "inventory.yml"
    cluster: str = "default"
    host: str = ""


def _cases(text: str, folder: Path) -> Iterator[Case]:
    for name, row in VARIABLES.items():
        values: list[Any] = [text]
        if row.kind is Kind.LIST:
            values = [[text], [f"/a:/{text}"], [f"{text}=1"]]
        elif row.kind in (Kind.MAPPING, Kind.ENVIRONMENT):
            values = [{"A_TOKEN": text, "B": text}, {text: "1"}, {text: None}]
        if name.endswith(("_dir", "_venv", "_library")):
            values.append(f"/{text}")
        yield from (Case(label=f"{name}={value!r}", variables={name: value}) for value in values)
    yield Case(label="cluster", variables={}, cluster=text)
    yield Case(label="host", variables={}, host=text)
    yield Case(label="file", variables={"vllm_env": {"A": "1"}, "nccl_env": {"B": "2"}}, file=text)
    secret = folder / "secret"
    mod = folder / text.replace("/", "").replace("\0", "")[:80]
    secret.write_text(text.replace("\0", ""), newline="")
    mod.write_text("echo mod\n")
    yield Case(label="secret", variables={"vllm_env": {"A": {"from_file": str(secret)}}})
    yield Case(label="mod", variables={"engine_mods": [str(mod)]})


@functools.cache
def _fabric() -> Fabric:
    return gb10.Cluster(*gb10.pair()).fabric


def _nodes(
    case: Case, engine: str, size: int, executor: Executor, port: int
) -> list[DeploymentNode]:
    own = {"engine": engine, "engine_image": engines.IMAGE, "vllm_model": "org/model"}
    own |= {"ray_port": port, **case.variables}  # type: ignore[dict-item]  # a port
    place = Where(file=case.file, line=1, col=1)
    variables = {name: Value(data=data, where=place) for name, data in own.items()}
    seen = engines.survey(daemon=replace(engines.DOCKER, cli=engine))
    made = []
    for rank in range(size):
        host = Host(name=f"spark-{rank + 1}", vars=variables)
        fabric = links.compute_rank_env(_fabric(), host) if size > 1 else ()
        mine = Settings(host=replace(host, name=case.host + host.name))
        runs = (
            NativeEngine(
                venv=mine.text("engine_venv") or "/venv", modules=mine.text("engine_cache_dir")
            )
            if engine == "native"
            else create_engine(
                mine, seen, gb10.pair()[rank].facts(), cluster=case.cluster, group=size > 1
            )
        )
        made.append(
            DeploymentNode(
                settings=mine,
                rank=rank,
                address="127.0.0.1" if size > 1 else None,
                engine=runs,
                folder=f"{mine.cluster_dir}/x",
                weights=mine.text("weights_dir"),
                model=f"{mine.text('weights_dir')}/{mine.text('vllm_model')}",
                environment=build_rank_environment(
                    mine,
                    fabric,
                    cluster=case.cluster,
                    hf_home=mine.text("weights_dir"),
                    engine=runs.environment,
                    executor=executor,
                ),
            )
        )
    return made


def _written(
    case: Case, way: tuple[str, int, Executor], port: int, base: Path, known: set[str]
) -> Iterator[Any]:
    """Write the scripts of every rank; yield where, and what bash must make of them."""
    engine, size, executor = way
    nodes = _nodes(case, engine, size, executor, port)
    made = render_deployment(case.cluster, nodes, tp=size, pp=1, contents=[], executor=executor)
    group = ParallelConfig(tp=size, pp=1, executor=made.executor)
    for node in nodes:
        texts = made.files[node.settings.host.name]
        if made.hash + str(texts) in known:
            continue  # a variable that no script has: these scripts are run once
        known.add(made.hash + str(texts))
        folder = base / f"{len(known):05d}"
        folder.mkdir()
        for name, text in texts.items():
            if name == "container.sh":
                text = text.replace(". /sparkfleet/", ". ./").replace("cd /", "cd .")  # noqa: PLW2901 - the same text
            if "/" not in name:
                (folder / name).write_text(text, newline="")
        words = {
            name: [word.replace(HASH_PLACEHOLDER, made.hash) for word in command]
            for name, command in _build_commands(node, nodes[0], group).items()
            if command
        }
        yield case, folder, words, {one.name: one.value for one in node.environment}


def _run(base: Path, tmp_path: Path) -> None:
    (tmp_path / "shell").write_text(SHELL)
    environment = {
        "PATH": "/usr/bin:/bin",
        "BASH_ENV": str(tmp_path / "shell"),
        "LC_ALL": "C.UTF-8",
    }
    command = [
        "/bin/bash",
        "--norc",
        "-c",
        f"unset -f exec mkdir sleep\n{DRIVER}",
        "driver",
        str(base),
    ]
    subprocess.run(command, env=environment, check=True, timeout=500, stdin=subprocess.DEVNULL)


def _harm(texts: tuple[str, ...], ways: Any, tmp_path: Path) -> tuple[int, list[str]]:
    """Return how many ranks were rendered and run, and what did not go as it is to go."""
    base = tmp_path / "ranks"
    known = set[str]()
    rows: list[Any] = []
    base.mkdir()
    with socket.create_server(("127.0.0.1", 0), backlog=500) as listener:
        port = listener.getsockname()[1]
        for number, text in enumerate(texts):
            folder = tmp_path / f"files{number}"
            folder.mkdir()
            for case in _cases(text, folder):
                for way in ways:
                    try:
                        with limit_cpu_time():
                            rows += _written(case, way, port, base, known)
                    except InputError:  # refused: no script, no harm
                        continue
        _run(base, tmp_path)
    wrong = [f"injected: {case.label}" for case, folder, _, _ in rows if _injected(folder)]
    for case, folder, words, variables in rows:
        # bash has no NUL; that it is refused is tested with the checks
        if "\\x00" not in case.label and "\0" not in case.cluster + case.host:
            wrong += _find_differences(case, folder, words, variables)
    return len(rows), wrong


def _find_differences(
    case: Case, folder: Path, words: Mapping[str, list[str]], variables: Mapping[str, str | None]
) -> Iterator[str]:
    for name, expected in words.items():
        if _words(folder / f"{name}.words") != expected:
            yield f"other words: {case.label} {name}"
    text = (folder / "environment").read_bytes().split(b"\0")
    for name, value in variables.items():
        if value is not None and f"{name}={value}".encode() not in text:
            yield f"other value: {case.label} {name}"


def _injected(folder: Path) -> bool:
    return (folder / "INJECTED").exists()


def _words(path: Path) -> list[str]:
    """Return what a script would have become; nothing where it did not come to its end."""
    return path.read_bytes().decode().split("\0")[:-1] if path.exists() else []


def test_no_text_leaves_its_place(tmp_path: Path) -> None:
    count, wrong = _harm(TOGETHER, FEW, tmp_path)
    assert wrong == []
    assert count > 50


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["docker", "podman", "native"])
@pytest.mark.parametrize("text", ALONE)
def test_no_text_alone_leaves_its_place(text: str, engine: str, tmp_path: Path) -> None:
    count, wrong = _harm((text,), [way for way in ALL if way[0] == engine], tmp_path)
    assert wrong == []
    assert count > 50

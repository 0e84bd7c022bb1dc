"""Every file of every rank of every recipe, for each number of Sparks that it is for.

The expected files lie in ``tests/golden/recipes/<recipe>/tp<size>.txt``, all of a size in one below
the document's section. After a wanted change, write them anew with SPARKFLEET_WRITE_GOLDEN=1 and
read the difference against that section.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet import links
from sparkfleet.launch.deployment.deployment import render_deployment
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.deployment.node import DeploymentNode
from sparkfleet.launch.engines.choice import create_engine
from sparkfleet.launch.preflight.preflight import check_engine_settings
from sparkfleet.links import Fabric
from sparkfleet.model import Host, Value
from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.recipes.settings import Settings, overlay_recipe
from sparkfleet.resources import list_data_files
from tests import gb10
from tests.engines import WITH_IMAGE, survey

FILES = Path(__file__).parent / "recipes"
WRITE = bool(os.environ.get("SPARKFLEET_WRITE_GOLDEN"))
COMMIT = "0123456789abcdef0123456789abcdef01234567"
HOME = "/home/nvidia"
KEY = "a key of this machine"
NAMES = [name for name in list_data_files("playbooks/recipes", ".yml") if name != "lab-tiny"]


def _sizes(recipe: Recipe) -> Iterator[int]:
    """Yield one and two Sparks where the recipe is for them, and more where it is made for that."""
    least = recipe.tp_min or 1
    most = recipe.tp_max or max(2, least)
    yield from (size for size in sorted({1, 2, least, 4}) if least <= size <= most)


ROWS = [(name, size) for name in NAMES for size in _sizes(load_recipe(name))]


@pytest.fixture
def mods(tmp_path: Path) -> Path:
    """Return a folder with placeholders for the community's mods."""
    for recipe in map(load_recipe, NAMES):
        for path in recipe.vars["engine_mods"].data if "engine_mods" in recipe.vars else ():
            folder = tmp_path / Path(path).name
            folder.mkdir(exist_ok=True)
            (folder / "run.sh").write_text("#!/bin/sh\n")
    return tmp_path


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", KEY)


def _hosts(recipe: Recipe, size: int, mods: Path) -> tuple[Host, ...]:
    """Return Sparks with the recipe's variables, its mods being those of `mods`."""
    own = {}
    if "engine_mods" in recipe.vars:
        names = [Path(one).name for one in recipe.vars["engine_mods"].data]
        own["engine_mods"] = Value(data=[str(mods / name) for name in names])
    names = [f"spark-{number}" for number in range(1, size + 1)]
    return tuple(overlay_recipe(Host(name=name, vars=own), recipe) for name in names)


def _snapshot(name: str) -> str:
    return f"hub/models--{name.replace('/', '--')}/snapshots/{COMMIT}"


def _node(host: Host, rank: int, spark: gb10.Spark, fabric: Fabric | None) -> DeploymentNode:
    settings = Settings(host=host)
    name = settings.text("engine_image")
    if settings.value("engine_pip"):
        name = "sparkfleet-derived:0123456789ab"
    image = replace(WITH_IMAGE, name=name, program=("/entrypoint.sh",))
    seen = survey(image=image, image_name=name, base=image)
    engine = create_engine(
        settings, seen, spark.facts(), cluster="default", group=fabric is not None
    )
    folder = _snapshot(settings.text("vllm_model"))
    model = f"{HOME}/vllm/{folder}"
    weights = f"{HOME}/vllm"
    return DeploymentNode(
        settings=settings,
        rank=rank,
        address=str(fabric.address(host.name)) if fabric else None,
        engine=engine,
        folder=seen.folder,
        weights=weights,
        model=model,
        drafts={name: _snapshot(name) for name in settings.value("weights_drafts") or ()},
        environment=build_rank_environment(
            settings,
            links.compute_rank_env(fabric, host) if fabric else (),
            cluster="default",
            hf_home=engine.inside(weights),
            model=engine.inside(model),
            engine=engine.environment,
            executor=Executor(settings.text("vllm_executor")),
        ),
    )


def _rendered(name: str, size: int, mods: Path) -> Mapping[str, Mapping[str, str]]:
    hosts = _hosts(load_recipe(name), size, mods)
    check_engine_settings(Settings(host=hosts[0]))
    sparks = [
        gb10.Spark(
            host.name,
            {
                gb10.F1: f"192.168.100.{number}/24",
                gb10.P2F1: f"192.168.101.{number}/24",
            },
        )
        for number, host in enumerate(hosts, 1)
    ]
    facts = {spark.name: spark.facts() for spark in sparks}
    fabric = links.select_fabric(facts, hosts) if size > 1 else None
    pairs = zip(hosts, sparks, strict=True)
    nodes = [_node(host, rank, spark, fabric) for rank, (host, spark) in enumerate(pairs)]
    executor = Executor(nodes[0].settings.text("vllm_executor"))
    return render_deployment(
        "default", nodes, tp=size, pp=1, contents=[COMMIT], executor=executor
    ).files


def _format_files(name: str, files: Mapping[str, Mapping[str, str]]) -> str:
    parts = [f"# {load_recipe(name).source}\n"]
    parts += [
        f"==> {host}/{file} <==\n{text}"
        for host, own in files.items()
        for file, text in own.items()
    ]
    return "\n".join(parts)


@pytest.mark.parametrize(("name", "size"), ROWS)
def test_a_recipe_is_rendered_as_its_document_has_it(name: str, size: int, mods: Path) -> None:
    path = FILES / name / f"tp{size}.txt"
    text = _format_files(name, _rendered(name, size, mods))
    if WRITE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_no_expected_file_is_left_over() -> None:
    wanted = {FILES / name / f"tp{size}.txt" for name, size in ROWS}
    assert {path for path in FILES.rglob("*") if path.is_file()} == wanted


def test_rendered_scripts_pass_shellcheck(mods: Path, tmp_path: Path) -> None:
    texts = {}
    for name, size in ROWS:
        for file, text in _rendered(name, size, mods)["spark-1"].items():
            if re.search(r"^[^/]+\.(sh|env)$", file):
                texts[text] = tmp_path / f"{name}-{size}-{file}"
    for text, path in texts.items():
        path.write_text(text)
    scripts = list(map(str, texts.values()))
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_key_is_in_the_environment_file_and_on_no_command_line(mods: Path) -> None:
    files = _rendered("dflash-qwen3.5-27b", 1, mods)["spark-1"]
    holders = {name for name, text in files.items() if KEY in text}
    assert holders == {"nccl.env"}
    assert f"export VLLM_API_KEY={shlex.quote(KEY)}\n" in files["nccl.env"]

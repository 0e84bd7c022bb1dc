"""Distribution of images, and the checks of their contents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.launch.host.image import ContainerImage, parse_image
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.images import checks, plan
from sparkfleet.launch.images.checks import check_image_contents, is_at_least
from sparkfleet.launch.images.plan import AcquirePlan, DistributePlan
from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.settings import Settings
from tests.engines import DOCKER, IMAGE, PROBE, WITH_IMAGE, settings, survey

BARE = survey(image=None, base=None, image_name=IMAGE)
HAS = survey()
OTHER = replace(WITH_IMAGE, key="other", layers=("sha256:z",), digests=("vllm@sha256:d2",))
NAMES = ("spark-1", "spark-2", "spark-3")
NOTHING = AcquirePlan()


def _fleet(*surveys: Survey) -> dict[str, Survey]:
    return dict(zip(NAMES, surveys, strict=False))


def _own(**variables: Any) -> Mapping[str, Settings]:
    return {name: settings(name, **variables) for name in NAMES}


def test_with_copy_the_head_alone_pulls_a_missing_image() -> None:
    found = plan.plan_acquisition(_fleet(BARE, BARE, BARE), _own())
    assert found == {"spark-1": AcquirePlan(pull=True), "spark-2": NOTHING, "spark-3": NOTHING}
    assert plan.plan_acquisition(_fleet(BARE, HAS), _own())["spark-1"] == NOTHING


def test_with_pull_each_host_pulls_what_it_lacks() -> None:
    found = plan.plan_acquisition(_fleet(HAS, BARE), _own(engine_image_source="pull"))
    assert found == {"spark-1": NOTHING, "spark-2": AcquirePlan(pull=True)}


def test_with_none_no_host_pulls_and_absence_is_an_error() -> None:
    own = _own(engine_image_source="none")
    fleet = _fleet(HAS, BARE)
    assert set(plan.plan_acquisition(fleet, own).values()) == {NOTHING}
    (verdict,) = checks.check_missing_images(fleet, own)
    assert (verdict.host, verdict.seen) == ("spark-2", "no image")
    assert f"docker pull {IMAGE}" in verdict.fix
    assert not [*checks.check_missing_images(fleet, _own())]


def test_more_packages_are_built_once_and_copied() -> None:
    own = _own(engine_pip=["scipy"], engine_image_source="pull")
    pulled = survey(image=None, image_name="sparkfleet-derived:1")
    found = plan.plan_acquisition(_fleet(pulled, pulled), own)
    assert found == {"spark-1": AcquirePlan(build=True), "spark-2": NOTHING}
    built = survey(image=OTHER, image_name="sparkfleet-derived:1")
    assert plan.plan_acquisition(_fleet(pulled, built), own)["spark-1"] == NOTHING
    assert plan.plan_distribution(_fleet(built, pulled), own)["spark-2"].source == "spark-1"


def test_the_lines_of_a_build_split_nothing() -> None:
    text = plan.render_dockerfile("vllm:1", ["ray[default]>=2.40", 'a; python_version > "3"'])
    first, second, *rest = text.splitlines()
    assert first == "FROM vllm:1"
    assert second.startswith('RUN ["env", "PIP_BREAK_SYSTEM_PACKAGES=1", "python3", "-m", "pip"')
    assert second.endswith('"ray[default]>=2.40", "a; python_version > \\"3\\""]')
    assert rest == []


def test_what_a_host_lacks_or_has_otherwise_is_copied_from_the_first() -> None:
    found = plan.plan_distribution(_fleet(BARE, HAS, survey(image=OTHER)), _own())
    assert found == {
        "spark-1": DistributePlan(source="spark-2", probe=True),
        "spark-2": DistributePlan(),
        "spark-3": DistributePlan(source="spark-2", probe=True),
    }


def test_one_image_under_two_storage_drivers_is_the_same() -> None:
    loaded = replace(WITH_IMAGE, id="sha256:9", digests=())
    pulled = replace(WITH_IMAGE, id="sha256:8", layers=("sha256:compressed",))
    for twin in (loaded, pulled):
        assert (
            plan.plan_distribution(_fleet(HAS, survey(image=twin)), _own())["spark-2"]
            == DistributePlan()
        )
    same_id = replace(OTHER, id=WITH_IMAGE.id)
    assert not same_id.same_as(WITH_IMAGE)


def test_two_images_of_one_name_are_an_error_where_none_is_copied() -> None:
    own = _own(engine_image_source="pull")
    (verdict,) = checks.check_unequal_images(_fleet(HAS, survey(image=OTHER)), own)
    assert (verdict.host, verdict.seen) == ("spark-2", "sha256:d2")
    assert verdict.expected == "sha256:d1, as on spark-1"
    assert "@sha256:" in verdict.fix
    assert not [*checks.check_unequal_images(_fleet(HAS, survey(image=OTHER)), _own())]


def test_room_is_wanted_at_both_ends_of_a_copy() -> None:
    small = replace(DOCKER, free=30 * 10**9)
    tiny = replace(DOCKER, free=10**9)
    fleet = _fleet(survey(daemon=tiny), replace(BARE, daemon=small))
    found = {
        one.host: one
        for one in checks.check_image_space(fleet, plan.plan_distribution(fleet, _own()))
    }
    assert found["spark-2"].expected.startswith("40 GB free")
    assert found["spark-2"].seen == "30 GB free"
    assert found["spark-1"].refuses
    streams = _fleet(survey(daemon=replace(tiny, storage="overlayfs")), BARE)
    assert [*checks.check_image_space(streams, plan.plan_distribution(streams, _own()))] == []


def _inside(
    image: ContainerImage = WITH_IMAGE, *, nodes: int = 2, **variables: Any
) -> dict[str, Verdict]:
    names = set(variables.pop("names", ()))
    found = check_image_contents(image, settings(**variables), names, nodes=nodes)
    return {verdict.check: verdict for verdict in found}


def _with(**changes: Any) -> ContainerImage:
    return replace(WITH_IMAGE, probe=replace(PROBE, **changes))


def test_a_good_image_passes_and_an_uninspected_one_gives_no_verdicts() -> None:
    assert {one.severity for one in _inside().values()} == {Severity.OK}
    assert _inside(replace(WITH_IMAGE, probe=None)) == {}


def test_the_executor_without_ray_needs_a_vllm_that_spans_nodes() -> None:
    bare = _with(nodes=False, programs=("vllm", "nvidia-smi"))
    found = {
        one.check: one for one in check_image_contents(bare, settings(), (), nodes=2, executor="mp")
    }
    assert found["engine.nnodes"].refuses
    assert "engine.ray" not in found
    assert "engine.nnodes" not in {
        one.check for one in check_image_contents(bare, settings(), (), nodes=1)
    }


def test_the_images_entrypoint_does_not_matter_but_it_needs_bash() -> None:
    for program in ((), ("vllm", "serve"), ("/opt/nvidia/nvidia_entrypoint.sh",)):
        assert _inside(replace(WITH_IMAGE, program=program)) == _inside()
    lacking = _inside(_with(programs=("vllm", "ray", "nvidia-smi")))["engine.bash"]
    assert (lacking.refuses, lacking.seen) == (True, "bash: command not found")
    assert "engine.bash" not in _inside()


def test_an_image_without_vllm_is_refused() -> None:
    assert _inside(_with(programs=("ray",)))["engine.vllm"].refuses


@pytest.mark.parametrize(
    ("gpus", "programs", "severity"),
    [
        ("", ("vllm", "ray", "nvidia-smi"), Severity.ERROR),
        ("", ("vllm", "ray"), Severity.INFO),
        ("GPU 0: NVIDIA GB10 (UUID: GPU-1)\n", ("vllm", "ray", "nvidia-smi"), Severity.OK),
    ],
)
def test_the_gpu_must_be_seen_from_inside(
    gpus: str, programs: tuple[str, ...], severity: Severity
) -> None:
    found = _inside(_with(gpus=gpus, programs=programs))
    assert found["engine.gpu_inside"].severity is severity
    assert "engine.gpu_inside" not in _inside(_with(gpus=""), engine_gpus="none")


def test_a_file_of_nccl_in_the_image_is_a_warning_with_what_it_sets() -> None:
    found = _inside(_with(nccl_conf="# author's\nNCCL_IB_HCA=mlx5_0\n"))["engine.nccl_conf"]
    assert (found.severity, found.seen) == (Severity.WARNING, "NCCL_IB_HCA=mlx5_0")
    assert "engine.nccl_conf" not in _inside(_with(nccl_conf="# nothing\n\n"))


@pytest.mark.parametrize(
    ("version", "least", "enough"),
    [
        ("0.21.0", "0.21", True),
        ("0.20.2rc1", "0.20.2", True),
        ("0.19.1rc1.dev31+ga88ce94bb", "0.19.1", True),
        ("0.19.0", "0.21.0", False),
        ("0.9.9", "0.10", False),
        ("v1", "0.21", True),
        ("", "0.1", False),
    ],
)
def test_versions_are_compared_by_their_release(version: str, least: str, *, enough: bool) -> None:
    assert is_at_least(version, least) is enough


def test_an_image_is_read_from_the_engines_own_words() -> None:
    answer = {
        "name": "vllm:1",
        "id": "sha256:x",
        "key": "k",
        "layers": ["sha256:a"],
        "digests": ["vllm@sha256:d"],
        "size": 5,
        "environment": ["PATH=/bin", "NCCL_DEBUG=", "ODD"],
        "architecture": "arm64",
        "program": ["/entrypoint.sh", "serve"],
        "probe": None,
    }
    image = parse_image(answer)
    assert image is not None
    assert image.program == ("/entrypoint.sh", "serve")
    assert image.digest == "sha256:d"
    assert image.environment == {"PATH": "/bin", "NCCL_DEBUG": "", "ODD": ""}
    assert parse_image(None) is parse_image({"name": "derived:1"}) is None

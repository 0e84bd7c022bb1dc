"""C21: the image has no Ray, and the start of Ray fails on every node."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet.launch.images.checks import check_image_contents
from tests.engines import PROBE, WITH_IMAGE, settings

WITHOUT = replace(
    WITH_IMAGE, probe=replace(PROBE, programs=("vllm", "bash", "nvidia-smi"), packages={})
)


def _refused(nodes: int) -> list[str]:
    return [
        str(one)
        for one in check_image_contents(WITHOUT, settings(), (), nodes=nodes)
        if one.refuses
    ]


def test_an_image_without_ray_is_refused_before_anything_starts() -> None:
    (text,) = _refused(nodes=2)
    assert "ray: command not found" in text
    assert "engine_pip: ['ray[default]']" in text
    assert "mp executor" in text


def test_one_node_needs_no_ray() -> None:
    assert _refused(nodes=1) == []

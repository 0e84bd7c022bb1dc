"""C26: a copy of a 34 GB image through /tmp hung, and the worker kept an old image."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from sparkfleet.launch.images import checks, plan
from sparkfleet.onhost import __file__ as onhost
from tests.engines import DOCKER, WITH_IMAGE, settings, survey

BIG = replace(WITH_IMAGE, size=34_500_000_000)
OLD = replace(WITH_IMAGE, layers=("sha256:old",), digests=())
OWN = {name: settings(name) for name in ("spark-1", "spark-2")}


def test_an_old_image_of_that_name_is_replaced() -> None:
    fleet = {"spark-1": survey(image=BIG), "spark-2": survey(image=OLD)}
    assert plan.plan_distribution(fleet, OWN)["spark-2"].source == "spark-1"


def test_a_disk_that_is_too_small_is_known_before_a_byte_moves() -> None:
    small = replace(DOCKER, free=34_000_000_000)
    fleet = {"spark-1": survey(image=BIG), "spark-2": survey(image=OLD, daemon=small)}
    (verdict,) = checks.check_image_space(fleet, plan.plan_distribution(fleet, OWN))
    assert verdict.refuses
    assert (verdict.host, verdict.subject, verdict.seen) == (
        "spark-2",
        "/var/lib/docker",
        "34 GB free",
    )


def test_a_copy_makes_no_file_and_uses_no_folder_for_temporary_ones() -> None:
    source = (Path(onhost).parent / "deployment/images.py").read_text()
    body = source.partition("def save_to_peer(")[2].partition("def run_probe_program(")[0]
    assert body
    assert re.findall(r"open\(|tempfile|/tmp|write_(?:bytes|text)", body) == []

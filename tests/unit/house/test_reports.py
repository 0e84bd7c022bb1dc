"""Every family of failures has reports from other public places, and a near miss."""

from __future__ import annotations

import re
from collections import defaultdict

from sparkfleet.doctor.signatures import SIGNATURES
from tests.public_reports import read_reports

LEAST = 2  # reports of a family, apart from its own sample
SOURCE = re.compile(r"[\w.-]+/[\w.-]+(?:#\d+| PR#\d+| (?:README|docs/)\S*)|https://\S+")
# No second public place that shows the message was found; a family leaves this list when it has
# its reports, and none enters it.
RARE = """
connectx-missing control-path-on-host cuda-context-no-memory cutlass-fp4-moe disk-too-small
driver-590 driver-610 env-copied-from-head env-overwritten-by-head fastsafetensors-missing
firewall-blocks gid-index-empty host-ip-unknown host-list-split image-layer-missing
instanttensor-loader mamba-block-size mdns-duplicate-name memory-almost-full memory-guard
message-queue-address model-code-not-staged model-not-staged modelinfos-permission nccl-2.30.4
nccl-ib-baked-in nccl-no-rdma-device nccl-so-path nccl-too-many-hcas nccl-tree-on-ring
netplan-self-route open-file-limit-low option-value-type pcie-width-x2 peer-unreachable
port-no-cable port-speed-100g ray-already-running ray-single-node rdma-memory-cma rdma-packet-loss
sm121-unsupported
"""


def _count_sources() -> dict[str, set[str]]:
    sources: dict[str, set[str]] = defaultdict(set)
    for report in read_reports():
        sources[report.family].add(report.source)
    return sources


def test_every_report_names_a_known_family_and_a_public_place() -> None:
    known = {row.id for row in SIGNATURES}
    for report in read_reports():
        assert report.family in known, report
        assert SOURCE.fullmatch(report.source), report
        assert report.text, report


def test_every_family_has_reports_from_other_places() -> None:
    sources = _count_sources()
    short = {row.id for row in SIGNATURES if len(sources[row.id]) < LEAST}
    assert short == set(RARE.split())


def test_every_family_has_a_near_miss() -> None:
    assert [row.id for row in SIGNATURES if not row.near_miss] == []

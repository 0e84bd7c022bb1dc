"""C52: a box was unreachable for 80 minutes: the Wi-Fi retry limit."""

from __future__ import annotations

from sparkfleet.model import Severity
from tests.gb10 import WIFI, Cluster, pair


def test_a_default_route_over_wifi_is_a_warning() -> None:
    head, peer = pair()
    peer.default_route = WIFI
    cluster = Cluster(head, peer)
    (verdict,) = cluster.found("host.wifi")
    assert (verdict.host, verdict.subject) == ("spark-2", WIFI)
    assert verdict.severity is Severity.WARNING
    assert cluster.refusals() == []


def test_a_wired_default_route_is_silent() -> None:
    assert Cluster(*pair()).found("host.wifi") == []

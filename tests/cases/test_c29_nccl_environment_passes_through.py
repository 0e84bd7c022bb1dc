"""C29: which setting stops hangs is unknown; any NCCL variable must pass unchanged and be shown."""

from __future__ import annotations

from sparkfleet import links
from sparkfleet.actions.deploy.replace_deployment import list_file_changes
from sparkfleet.launch.host.survey import Survey
from tests.engines import deployed, survey
from tests.gb10 import Cluster, pair

GIVEN = {"NCCL_NET_GDR_LEVEL": 0, "NCCL_DMABUF_ENABLE": 0, "NCCL_PROTO": "Simple"}
LINES = {
    "export NCCL_NET_GDR_LEVEL=0",
    "export NCCL_DMABUF_ENABLE=0",
    "export NCCL_PROTO=Simple",
}


def _text(host: str) -> str:
    cluster = Cluster(*pair(nccl_env=GIVEN))
    chosen = next(own for own in cluster.hosts if own.name == host)
    return deployed(links.compute_rank_env(cluster.fabric, chosen))[1]["spark-1"]["nccl.env"]


def test_every_rank_has_it_as_it_is_written() -> None:
    for host in ("spark-1", "spark-2"):
        assert set(_text(host).splitlines()) >= LINES


def test_a_dry_run_shows_it_before_anything_is_changed() -> None:
    wanted = {"nccl.env": _text("spark-1")}
    seen: Survey = survey(files={"nccl.env": None})
    (change,) = list_file_changes(wanted, seen)
    assert change.summary.startswith("write ")
    assert change.after is not None
    assert set(change.after.splitlines()) >= LINES


def test_each_says_where_it_comes_from() -> None:
    before, _, _ = _text("spark-1").partition("\nexport NCCL_PROTO=Simple")
    assert before.splitlines()[-1] == "# nccl_env"

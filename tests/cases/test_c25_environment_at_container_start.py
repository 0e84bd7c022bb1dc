"""C25: variables added by `docker exec` on the head missed the ranks that Ray spawned."""

from __future__ import annotations

from sparkfleet.links import EnvVar
from tests.engines import deployed, executed

FABRIC = (EnvVar(name="NCCL_SOCKET_IFNAME", value="enp1s0f1np1", why=""),)


def test_ray_itself_is_started_with_the_environment_on_all_nodes() -> None:
    _, files = deployed(FABRIC, hosts=2)
    for host, script in (("spark-1", "ray-head.sh"), ("spark-2", "ray-worker.sh")):
        words = executed(files[host][script])
        at = words.index("/sparkfleet/container.sh")
        assert words[at + 1 : at + 3] == ["ray", "start"]
        start = files[host]["container.sh"]
        assert start.index(". /sparkfleet/nccl.env") < start.index('exec "$@"')
        assert "export NCCL_SOCKET_IFNAME=enp1s0f1np1" in files[host]["nccl.env"]


def test_nothing_is_added_to_a_container_that_runs() -> None:
    _, files = deployed(FABRIC, hosts=2)
    scripts = [text for own in files.values() for name, text in own.items() if name.endswith(".sh")]
    assert scripts
    assert not [text for text in scripts if "docker exec" in text]

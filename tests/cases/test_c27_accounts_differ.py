"""C27: accounts differ on the nodes, and a tool that assumed root, or one home, failed."""

from __future__ import annotations

from pathlib import Path

from sparkfleet.inventory.loading import load_inventory
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.survey import survey_host
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.ssh_options import parse_ssh_options
from tests.weights import UserLink

USERS = {"spark-01": "alice", "spark-02": "bob"}
INVENTORY = """
sparks:
  hosts:
    spark-01: {ansible_user: alice}
    spark-02: {ansible_user: bob}
  vars: {engine_venv: ~/venv, weights_dir: ~/vllm}
"""


def test_each_host_is_reached_as_its_own_user(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    hosts = load_inventory([str(tmp_path / "hosts.yml")]).hosts
    assert {name: parse_ssh_options(host).user for name, host in hosts.items()} == USERS


def test_files_of_a_deployment_are_below_each_users_own_home(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    for name, host in load_inventory([str(tmp_path / "hosts.yml")]).hosts.items():
        home = tmp_path / USERS[name]
        link, settings = UserLink(name, HOME=str(home)), Settings(host=host)
        place = processes.locate_deployment(settings, "default")
        processes.write_files(link, place, {"nccl.env": "A=1\n"})
        survey = survey_host(link, settings, "default")
        assert survey.folder == str(home / "vllm/.sparkfleet/default")
        assert survey.expand(settings.text("engine_venv")) == str(home / "venv")
        assert (home / "vllm/.sparkfleet/default/nccl.env").stat().st_mode & 0o777 == 0o600
        assert str(home).encode() not in link.sent

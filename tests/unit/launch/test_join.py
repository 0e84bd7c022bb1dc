"""Ray has the nodes that the cluster needs, or the sentence says what is missing."""

from __future__ import annotations

from sparkfleet.launch.startup.join import check_ray_nodes

WANTED = {"spark-01": "192.168.100.10", "spark-02": "192.168.100.11"}


def test_two_nodes_with_a_gpu_each_are_a_group() -> None:
    assert check_ray_nodes({"192.168.100.10": 1.0, "192.168.100.11": 1.0}, WANTED) == ""


def test_a_host_that_did_not_join_is_named_with_what_did() -> None:
    text = check_ray_nodes({"192.168.100.10": 1.0}, WANTED)
    assert text == "spark-02 (192.168.100.11) did not join Ray; its nodes: 192.168.100.10 (1 GPU)"


def test_c23_two_gpus_on_one_node_are_no_group() -> None:
    text = check_ray_nodes({"192.168.100.10": 2.0}, WANTED)
    assert "spark-02 (192.168.100.11) did not join Ray" in text
    assert "192.168.100.10 (2 GPUs)" in text


def test_c23_a_node_without_a_gpu_has_its_own_message() -> None:
    text = check_ray_nodes({"192.168.100.10": 1.0, "192.168.100.11": 0}, WANTED)
    assert text == "spark-02 (192.168.100.11) joined Ray without a GPU"


def test_c02_a_node_under_another_address_does_not_count() -> None:
    text = check_ray_nodes({"192.168.100.10": 1.0, "10.0.0.11": 1.0}, WANTED)
    assert "spark-02 (192.168.100.11) did not join" in text
    assert "10.0.0.11" in text

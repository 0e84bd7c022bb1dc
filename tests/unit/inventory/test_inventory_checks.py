"""Our variables are checked for type, range and form; foreign ones pass through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkfleet import inventory
from sparkfleet.errors import InventoryError
from sparkfleet.inventory.gateway import has_gateway, read_gateway
from sparkfleet.spelling import is_typing_slip
from sparkfleet.variables import VARIABLES


def _problems(folder: Path, variables: dict[str, Any]) -> list[str]:
    path = folder / "hosts.json"
    path.write_text(json.dumps({"sparks": {"hosts": {"spark1": {}}, "vars": variables}}))
    try:
        inventory.load_inventory([str(path)])
    except InventoryError as refusal:
        return [problem.message for problem in refusal.problems]
    return []


GOOD: list[tuple[str, Any]] = [
    ("link_mtu", 9000),
    ("link_mtu", None),
    ("link_speed", 100000),
    ("link_topology", "ring"),
    ("link_interfaces", ["enp1s0f0np0", "enP2p1s0f0np0"]),
    ("link_addresses", {"enp1s0f0np0": "192.168.100.10/24"}),
    ("link_cables", {"enp1s0f0np0": "spark2:enp1s0f1np1"}),
    ("link_control_interface", "enP7s7"),
    ("link_rails", 1),
    ("nccl_ib_gid_index", "auto"),
    ("nccl_ib_gid_index", "unset"),
    ("nccl_ib_gid_index", 3),
    ("nccl_ib_hca", "rocep1s0f0,roceP2p1s0f0"),
    ("nccl_ib_hca", "=rocep1s0f0"),
    ("nccl_ib_hca", "^mlx5_1"),
    ("nccl_ib_hca", "^=mlx5_1:1"),
    ("nccl_ib_hca", "rocep1s0f0:1"),
    ("nccl_env", {"NCCL_DEBUG": "INFO", "NCCL_IB_TC": 106, "NCCL_ALGO": None}),
    ("ray_object_store_memory", "1GiB"),
    ("ray_object_store_memory", 104857600),
    ("vllm_ready_timeout", "1h30m"),
    ("vllm_ready_timeout", 900),
    ("vllm_args", {"max-model-len": 4096, "enforce-eager": True}),
    ("vllm_memory_reserve", "8 GiB"),
    ("weights_dir", "~/vllm"),
    ("cluster_rank_vars", [{"ray_cpus": 2}, {}]),
    ("page", {"bind": "127.0.0.1:8090"}),
    ("page", {"token_file": "~/page-token"}),
    ("page", {}),
    ("notify", {"command": ["mail", "ops"]}),
    ("notify", {"webhook": {"from_file": "~/webhook"}}),
]
BAD: list[tuple[str, Any, str]] = [
    ("page", {"bind": "spark1:8090"}, "page: expected bind: ADDRESS:PORT with an IP address"),
    ("page", {"port": 8090}, "page: expected bind: ADDRESS:PORT, token_file: PATH, or both"),
    ("page", {"token_file": ""}, "page: expected text"),
    ("notify", {"webhook": "https://x"}, "notify: expected webhook: {from_file: PATH}"),
    ("link_mtu", "9000", "link_mtu: expected an integer from 1280 to 9216 (got '9000')"),
    ("link_mtu", True, "link_mtu: expected an integer from 1280 to 9216 (got True)"),
    ("link_mtu", 9000.5, "link_mtu: expected an integer from 1280 to 9216 (got 9000.5)"),
    ("link_mtu", 20000, "link_mtu: expected an integer from 1280 to 9216 (got 20000)"),
    ("link_mtu", 576, "link_mtu: expected an integer from 1280 to 9216 (got 576)"),
    ("link_topology", "star", "link_topology: expected one of direct, switch, ring (got 'star')"),
    (
        "link_topology",
        ["ring"],
        "link_topology: expected one of direct, switch, ring (got ['ring'])",
    ),
    (
        "link_interfaces",
        "enp1s0f0np0",
        "link_interfaces: expected a list of text, like [a, b] (got",
    ),
    ("link_interfaces", ["eno1"] * 2, "link_interfaces: expected 1 to 4 different interfaces"),
    ("link_interfaces", [], "link_interfaces: expected 1 to 4 different interfaces (got [])"),
    ("link_interfaces", ["rocepXsYfZ"], "link_interfaces: expected the name of an interface"),
    ("link_interfaces", ["<your nic>"], "link_interfaces: expected the name of an interface"),
    (
        "link_addresses",
        {"eth0": "192.168.100.10"},
        "link_addresses: expected eth0 with an address like",
    ),
    ("link_addresses", {"eth0": 5}, "link_addresses: expected eth0 with an address like"),
    ("link_addresses", {"eth0": False}, "link_addresses: expected eth0 with an address like"),
    ("link_addresses", ["eth0"], "link_addresses: expected a mapping of names to values"),
    (
        "link_cables",
        {"eth0": "spark2"},
        "link_cables: expected eth0 with the far end as HOST:INTERFACE",
    ),
    ("link_rails", 5, "link_rails: expected an integer from 1 to 4 (got 5)"),
    (
        "nccl_ib_gid_index",
        "three",
        "nccl_ib_gid_index: expected auto, unset or an integer from 0 to 255 (got 'three')",
    ),
    (
        "nccl_ib_gid_index",
        256,
        "nccl_ib_gid_index: expected auto, unset or an integer from 0 to 255 (got 256)",
    ),
    (
        "nccl_ib_gid_index",
        True,
        "nccl_ib_gid_index: expected auto, unset or an integer from 0 to 255 (got True)",
    ),
    ("nccl_ib_hca", "rocepXsYfZ", "nccl_ib_hca: expected HCAs as NAME"),
    ("nccl_ib_hca", "a b", "nccl_ib_hca: expected HCAs as NAME"),
    ("nccl_ib_hca", "a,,b", "nccl_ib_hca: expected HCAs as NAME"),
    (
        "nccl_env",
        {"NCCL_IB_DISABLE": True},
        "nccl_env: expected text in quotes, a number or null for NCCL_",
    ),
    (
        "nccl_env",
        {"A": ["b"]},
        "nccl_env: expected text, a number or null for A (got {'A': ['b']})",
    ),
    ("nccl_env", "NCCL_DEBUG=INFO", "nccl_env: expected a mapping of names to values"),
    ("ray_object_store_memory", "lots", "ray_object_store_memory: expected a number of bytes"),
    ("ray_object_store_memory", "1MiB", "ray_object_store_memory: expected a size >= 75MiB"),
    ("vllm_ready_timeout", "soon", "vllm_ready_timeout: expected a duration"),
    ("vllm_port", 0, "vllm_port: expected an integer from 1 to 65535 (got 0)"),
    ("vllm_args", ["--enforce-eager"], "vllm_args: expected a mapping of names to values"),
    ("weights_dir", "", "weights_dir: expected text (got '')"),
    ("weights_dir", 5, "weights_dir: expected text (got 5)"),
    (
        "cluster_dir",
        "state",
        "cluster_dir: expected an absolute path, or one that begins with ~ (got 'state')",
    ),
    (
        "weights_dir",
        "vllm",
        "weights_dir: expected an absolute path, or one that begins with ~ (got 'vllm')",
    ),
    (
        "weights_dir",
        "$HOME/vllm",
        "weights_dir: expected an absolute path, or one that begins with ~ (got '$HOME/",
    ),
    (
        "weights_dir",
        "/data/$USER",
        "weights_dir: expected an absolute path, or one that begins with ~ (got '/data/",
    ),
    ("cluster_rank_vars", {"0": {}}, "cluster_rank_vars: expected a list of mappings"),
    ("cluster_rank_vars", [3], "cluster_rank_vars: expected a list of mappings"),
]


@pytest.mark.parametrize(("name", "data"), GOOD)
def test_a_value_of_the_right_form_is_taken(name: str, data: Any, tmp_path: Path) -> None:
    assert _problems(tmp_path, {name: data}) == []


@pytest.mark.parametrize(("name", "data", "expected"), BAD)
def test_a_value_of_another_form_is_refused_with_the_value_seen(
    name: str, data: Any, expected: str, tmp_path: Path
) -> None:
    [problem] = _problems(tmp_path, {name: data})
    assert problem.startswith(expected)


def test_the_defaults_of_the_table_pass_their_own_check(tmp_path: Path) -> None:
    defaults = {name: row.default for name, row in VARIABLES.items() if row.default is not None}
    assert _problems(tmp_path, defaults) == []
    assert len(defaults) > 5


@pytest.mark.parametrize(
    "name",
    [
        *("k3s_version", "cluster_context", "cluster_bond", "linked", "rayon", "ports"),
        *("my_vllm_port", "nccl_home", "vllm_image_of_mine", "ray_head_node", "weights_url"),
    ],
)
def test_a_foreign_variable_passes_through(name: str, tmp_path: Path) -> None:
    assert _problems(tmp_path, {name: {"anything": [1]}}) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("link_mut", "did you mean 'link_mtu'?"),
        ("cluster_nmae", "did you mean 'cluster_name'?"),
    ],
)
def test_an_unknown_name_in_our_families_is_refused_with_a_suggestion(
    name: str, hint: str, tmp_path: Path
) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(f"sparks: {{hosts: {{spark1: {{a: 1, {name}: 1}}}}}}\n")
    with pytest.raises(InventoryError) as refusal:
        inventory.load_inventory([str(path)])
    [problem] = refusal.value.problems
    assert (problem.message, problem.hint) == (f"unknown variable {name}", hint)
    assert str(problem.where) == f"{path}:1:33"


def test_a_value_that_another_shadows_is_checked_too(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("all: {vars: {link_mtu: 1}}\nsparks: {hosts: {s: }, vars: {link_mtu: 9000}}\n")
    with pytest.raises(
        InventoryError, match=r"link_mtu: expected an integer from 1280 to 9216 \(got 1\)"
    ):
        inventory.load_inventory([str(path)])


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"ansible_host": "-oProxyCommand=x"},
            "ansible_host: expected a host name or an address",
        ),
        ({"ansible_host": "10.0.0.1; reboot"}, "ansible_host: expected a host name or an addre"),
        ({"ansible_host": "$(id)"}, "ansible_host: expected a host name or an address"),
        ({"ansible_host": ["a"]}, "ansible_host: expected a host name or an address"),
        ({"ansible_port": "22x"}, "ansible_port: expected an integer from 1 to 65535 (got '22x')"),
        ({"ansible_port": 65536}, "ansible_port: expected an integer from 1 to 65535 (got 65536)"),
        ({"ansible_user": "-l"}, "ansible_user: expected a user name (got '-l')"),
        (
            {"ansible_connection": "docker"},
            "ansible_connection: expected ssh or local (got 'docker')",
        ),
        ({"ansible_port": [22]}, "ansible_port: expected an integer from 1 to 65535 (got [22])"),
        (
            {"ansible_ssh_common_args": "-o 'x"},
            "ansible_ssh_common_args: expected options, quoted as in",
        ),
        ({"ansible_ssh_common_args": 5}, "ansible_ssh_common_args: expected options, quoted as in"),
        (
            {"ansible_ssh_private_key_file": ["a"]},
            "ansible_ssh_private_key_file: expected a file path",
        ),
        ({"ansible_user": "a b"}, "ansible_user: expected a user name (got 'a b')"),
    ],
)
def test_what_would_reach_ssh_as_an_option_is_refused(
    variables: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    [problem] = _problems(tmp_path, variables)
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    "variables",
    [
        {"ansible_host": "fe80::1%enp1s0"},
        {"ansible_host": "spark-1.lan"},
        {"ansible_port": "2222"},
        {"ansible_user": "DOMAIN\\me"},
        {"ansible_user": "me@example.com"},
    ],
)
def test_what_ssh_takes_is_taken(variables: dict[str, Any], tmp_path: Path) -> None:
    assert _problems(tmp_path, variables) == []


def test_two_sparks_with_one_address_are_refused_unless_the_way_there_differs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "hosts.ini"
    path.write_text("[sparks]\na ansible_host=10.0.0.1\nb ansible_host=10.0.0.1\n")
    with pytest.raises(InventoryError, match=r"b and a have the same address 10\.0\.0\.1"):
        inventory.load_inventory([str(path)])
    path.write_text(
        "[sparks]\na ansible_host=h ansible_port=1\nb ansible_host=h ansible_port=2\n"
        "c ansible_host=h ansible_ssh_common_args='-o ProxyJump=x'\n"
        "d ansible_host=h ansible_connection=local\n"
    )
    assert len(inventory.load_inventory([str(path)]).hosts) == 4


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"cluster_cidr": "10.42.0.0/16"}, None),  # k3s-ansible; cluster_dir is a path
        ({"cluster_dri": "/srv/sparkfleet"}, "unknown variable cluster_dri"),
        ({"cluster_dr": "~/sparkfleet"}, "unknown variable cluster_dr"),
        ({"cluster_dirs": ["/a", "/b"]}, None),  # cluster_dir is never a list
        ({"vllm_ports": [8000, 8001], "vllm_port": 8000}, None),
        ({"vllm_prot": 8000, "vllm_port": 8000}, None),  # the right one is set
        ({"vllm_prot": 8000}, "unknown variable vllm_prot"),
        ({"vllm_prot": "{{ port }}", "port": 8000}, "unknown variable vllm_prot"),
        ({"service_cidr": "10.43.0.0/16", "cluster_dns": "10.43.0.10"}, None),
    ],
)
def test_a_similar_name_is_refused_only_where_it_may_be_misspelt(
    variables: dict[str, Any], expected: str | None, tmp_path: Path
) -> None:
    found = _problems(tmp_path, variables)
    assert bool(found) is (expected is not None)
    if expected:
        assert expected in str(found)


def test_names_in_a_cluster_definition_are_not_shared_with_other_projects(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "sparks: {hosts: {spark1: {}}, vars: {clusters: {a: {hosts: sparks, "
        "vars: {nccl_home: /opt}}}}}\n"
    )
    with pytest.raises(InventoryError, match="names that start with nccl_"):
        inventory.load_inventory([str(path)])


@pytest.mark.parametrize(
    ("name", "meant", "slip"),
    [
        ("link_mut", "link_mtu", True),
        ("link_mt", "link_mtu", True),
        ("link_mtuu", "link_mtu", True),
        ("link_mtx", "link_mtu", True),
        ("cluster_cidr", "cluster_dir", False),
        ("link_mtu", "link_mtu", True),
        ("", "a", True),
        ("ab", "", False),
    ],
)
def test_a_typing_slip_is_one_letter(name: str, meant: str, *, slip: bool) -> None:
    assert is_typing_slip(name, meant) is slip


SHARED = """
all:
  children:
    sparks:
      hosts: {spark1: {ansible_host: 10.0.0.11}}
    others:
      hosts:
        r1: {ansible_host: "https://10.0.0.1/api", ansible_connection: httpapi}
        w1: {ansible_user: 'CORP\\svc user', ansible_connection: winrm, link_speed: 1G}
        v1: {ansible_user: "{{ vault_user }}", engine: "{{ engine_of_v1 }}"}
      vars: {engine: nginx, guard: falco, page: /x, notify: ops, vllm_prot: 1}
  vars: {gateway: 10.0.0.254}
"""


def test_what_others_set_for_hosts_that_are_no_sparks_is_theirs(tmp_path: Path) -> None:
    """As in inventories of network devices, Windows hosts and k3s, all in one file."""
    path = tmp_path / "hosts.yml"
    path.write_text(SHARED)
    loaded = inventory.load_inventory([str(path)])
    assert loaded.hosts["w1"].get("link_speed") == "1G"
    assert loaded.hosts["v1"].get("ansible_user") == "{{ vault_user }}"


def test_what_all_hosts_get_is_checked_for_the_sparks(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(SHARED.replace("254}", "254, engine: nginx}"))
    with pytest.raises(InventoryError, match="engine: expected one of docker, podman, native"):
        inventory.load_inventory([str(path)])


@pytest.mark.parametrize("data", ["10.0.0.254", "fd00::1", "10.0.0.254/24"])
def test_an_address_as_the_gateway_is_the_router_of_a_network(data: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(f"sparks: {{hosts: {{s: }}, vars: {{gateway: '{data}'}}}}\n")
    loaded = inventory.load_inventory([str(path)])
    assert not has_gateway(loaded)
    assert read_gateway(loaded) is None


@pytest.mark.parametrize("data", ["8080", "true", "10.0.0.254:8080", "http://10.0.0.1"])
def test_another_text_as_the_gateway_is_refused(data: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(f"sparks: {{hosts: {{s: }}, vars: {{gateway: '{data}'}}}}\n")
    with pytest.raises(InventoryError, match="gateway: expected a mapping"):
        inventory.load_inventory([str(path)])

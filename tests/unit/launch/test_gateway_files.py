"""Files of the gateway: routes, keys, hashes; and the inventories that are refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from sparkfleet import inventory
from sparkfleet.errors import InventoryError
from sparkfleet.inventory.gateway import Gateway, has_gateway, read_gateway
from sparkfleet.launch.gateway import rendering
from sparkfleet.launch.gateway.keys import read_api_keys
from sparkfleet.launch.gateway.routes import (
    ModelRoute,
    ServedCluster,
    build_routes,
    find_missing_aliases,
)
from tests.engines import deployed, executed

KEY = "sk-0123456789abcdef"
TWO = "sparks: {hosts: {spark1: {ansible_host: 10.0.0.1}, spark2: }, vars: {gateway: %s}}\n"
DESK = ServedCluster(cluster="desk", name="org/large", address="10.0.0.1", port=8000)
RACK = ServedCluster(cluster="rack", name="small", address="10.0.0.2", port=8000)


def load(folder: Path, text: str = "{}") -> Gateway:
    path = folder / "hosts.yml"
    path.write_text(text if "sparks" in text else TWO % text)
    found = read_gateway(inventory.load_inventory([str(path)]))
    assert found is not None
    return found


def refused(folder: Path, text: str) -> list[str]:
    with pytest.raises(InventoryError) as refusal:
        load(folder, text)
    return [str(problem).replace(f"{folder}/", "") for problem in refusal.value.problems]


def write_keys(folder: Path, text: str = f"me {KEY}\n", mode: int = 0o600) -> Path:
    path = folder / "keys"
    path.write_text(text)
    path.chmod(mode)
    return path


def render(gateway: Gateway, *clusters: ServedCluster, keys: Any = ()) -> rendering.GatewayFiles:
    return rendering.render_gateway(gateway, build_routes(gateway, clusters), keys, ["hosts.yml"])


def test_without_more_said_it_runs_on_the_first_head(tmp_path: Path) -> None:
    gateway = load(tmp_path)
    assert gateway.host.name == "spark1"
    assert gateway.url == "http://10.0.0.1:8080/v1"
    assert load(tmp_path, "{bind: 127.0.0.1, port: 81}").url == "http://127.0.0.1:81/v1"
    assert load(tmp_path, "{host: spark2}").host.name == "spark2"


def test_an_inventory_may_have_none(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("sparks: {hosts: {spark1: }}\n")
    loaded = inventory.load_inventory([str(path)])
    assert not has_gateway(loaded)
    assert read_gateway(loaded) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{port: 0}", "gateway: port: expected an integer from 1 to 65535 (got 0)"),
        ("{bind: spark1}", "gateway: bind: expected an IPv4 address of its host, 0.0.0.0 or"),
        ("{timeout: 10s}", "gateway: timeout: expected a duration >= 60s (got '10s')"),
        ("{max_body: 1GiB}", "gateway: max_body: expected a size from 64KiB to 128MiB"),
        ("{aliases: {'a b': c}}", "gateway: aliases: expected names of models by alias"),
        ("{aliases: [a]}", "gateway: aliases: expected a mapping of names to values"),
        ("{host: spark3}", "gateway: host 'spark3' is not in the group `sparks`"),
        ("[a]", "gateway: expected a mapping of names to values (got ['a'])"),
    ],
    ids=("port", "bind", "timeout", "body", "blank", "list", "host", "kind"),
)
def test_a_wrong_value_is_refused_at_its_place(tmp_path: Path, text: str, said: str) -> None:
    (problem,) = refused(tmp_path, text)
    assert problem.startswith("hosts.yml:1:")
    assert said in problem


def test_an_unknown_key_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "{api_key: keys}")
    assert problem.startswith("hosts.yml:1:80: gateway: unknown key 'api_key'")
    assert "did you mean 'api_keys'?" in problem


def test_no_cluster_may_have_the_name_of_the_gateway(tmp_path: Path) -> None:
    text = (
        "sparks: {hosts: {spark1: }, vars: {gateway: {}, clusters: {gateway: {hosts: spark1}}}}\n"
    )
    (problem,) = refused(tmp_path, text)
    assert "cluster name 'gateway' is reserved for the gateway" in problem


def test_each_model_has_a_route_and_clusters_with_the_same_model_are_copies(tmp_path: Path) -> None:
    copy = ServedCluster(cluster="copy", name="small", address="10.0.0.3", port=8001)
    large, small = build_routes(load(tmp_path), (DESK, RACK, copy))
    assert (large.names, large.backend) == (("org/large",), "org_large")
    assert [each.cluster for each in small.servers] == ["rack", "copy"]


def test_names_that_look_alike_to_haproxy_have_backends_of_their_own(tmp_path: Path) -> None:
    twin = ServedCluster(cluster="twin", name="org:large", address="10.0.0.3", port=8000)
    routes = build_routes(load(tmp_path), (DESK, twin))
    assert [route.backend for route in routes] == ["org_large", "org_large_"]


def test_a_cluster_that_was_not_started_has_a_route_and_no_server(tmp_path: Path) -> None:
    (route,) = build_routes(load(tmp_path), (ServedCluster(cluster="off", name="x"),))
    assert isinstance(route, ModelRoute)
    assert route.servers == ()


def test_an_alias_is_routed_where_all_copies_were_started_with_it(tmp_path: Path) -> None:
    gateway = load(tmp_path, "{aliases: {gpt: small}}")
    started = ServedCluster(
        cluster="rack", name="small", names=("gpt",), address="10.0.0.2", port=8000
    )
    (route,) = build_routes(gateway, (started,))
    assert route.names == ("small", "gpt")
    assert not list(find_missing_aliases(gateway, (route,)))
    both = build_routes(gateway, (started, RACK))
    assert both[0].names == ("small",)
    assert list(find_missing_aliases(gateway, both)) == ["rack was started without the alias gpt"]


def test_an_alias_that_a_host_made_up_is_in_no_file(tmp_path: Path) -> None:
    names = ("gpt", 'x"}\n    server evil 203.0.113.1:1', "a b", "y" * 300)
    lying = ServedCluster(cluster="rack", name="small", names=names, address="10.0.0.2", port=8000)
    gateway = load(tmp_path)
    assert build_routes(gateway, (lying,))[0].names == ("small", "gpt")
    assert "evil" not in "".join(render(gateway, lying).files.values())


def test_a_key_that_no_header_can_hold_is_refused(tmp_path: Path) -> None:
    odd = ServedCluster(cluster="rack", name="small", key="a\nlarge Bearer stolen")
    with pytest.raises(InventoryError, match="VLLM_API_KEY of cluster rack") as refusal:
        build_routes(load(tmp_path), (odd,))
    assert "stolen" not in str(refusal.value)


@pytest.mark.parametrize(
    ("aliases", "said"),
    [
        ("{gpt: smal}", "gateway: aliases: gpt: no cluster serves 'smal'"),
        ("{small: org/large}", "gateway: aliases: small is already the name of a served model"),
    ],
    ids=("unknown", "taken"),
)
def test_an_alias_of_nothing_is_refused(tmp_path: Path, aliases: str, said: str) -> None:
    gateway = load(tmp_path, f"{{aliases: {aliases}}}")
    with pytest.raises(InventoryError, match=said) as refused:
        build_routes(gateway, (DESK, RACK))
    assert refused.value.hint


def test_copies_with_different_keys_and_odd_names_are_refused(tmp_path: Path) -> None:
    gateway = load(tmp_path)
    keyed = ServedCluster(cluster="copy", name="small", address="10.0.0.3", port=1, key="k")
    with pytest.raises(InventoryError, match="rack and copy serve small, and require different"):
        build_routes(gateway, (RACK, keyed))
    with pytest.raises(InventoryError, match="called 'my model', which cannot be routed"):
        build_routes(gateway, (ServedCluster(cluster="odd", name="my model"),))


def test_only_hashes_of_keys_are_in_the_files(tmp_path: Path) -> None:
    gateway = load(tmp_path, f"{{api_keys: {write_keys(tmp_path, f'# ours{chr(10)}me {KEY}')}}}")
    keys = read_api_keys(gateway)
    files = render(gateway, DESK, RACK, keys=keys).files
    assert not [name for name, text in files.items() if KEY in text]
    digest = hashlib.sha256(KEY.encode()).hexdigest().upper()
    assert files["keys.map"] == f"{digest} me\n"
    assert KEY not in repr(keys)


def test_the_key_of_a_cluster_is_in_one_file_that_is_shown_masked(tmp_path: Path) -> None:
    gateway = load(tmp_path, f"{{api_keys: {write_keys(tmp_path)}}}")
    keyed = ServedCluster(cluster="rack", name="small", address="10.0.0.2", port=1, key="vk-1")
    files = render(gateway, keyed, keys=read_api_keys(gateway)).files
    assert [name for name, text in files.items() if "vk-1" in text] == ["backends.map"]
    assert rendering.mask_gateway_file("backends.map", files["backends.map"]) == "small (secret)\n"
    assert rendering.mask_gateway_file("keys.map", files["keys.map"]) == "(secret) me\n"
    assert "vk-1" not in repr(keyed)


def test_without_keys_of_its_own_it_passes_on_what_clients_send(tmp_path: Path) -> None:
    keyed = ServedCluster(cluster="rack", name="small", address="10.0.0.2", port=1, key="vk-1")
    files = render(load(tmp_path), keyed).files
    assert "401" not in files["haproxy.cfg"]
    assert "del-header authorization" not in files["haproxy.cfg"]
    assert files["backends.map"] == ""


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (f"me {KEY}\n", 0o640, "other users can read it (mode 0640, expected 0600)"),
        ("", 0o600, "contains no keys"),
        ("me short\n", 0o600, "keys: the key must have 16 to 1024 printable"),
        (f"{KEY}\n", 0o600, "keys: expected a name and a key (got 1 word)"),
        (f"me {KEY}\n\nyou {KEY}\n", 0o600, "keys: its name or key is already on an"),
        (f"<me> {KEY}\n", 0o600, "keys: the name may have letters"),
    ],
    ids=("mode", "empty", "short", "unnamed", "twice", "name"),
)
def test_a_wrong_file_of_keys_is_refused_without_a_word_of_it(
    tmp_path: Path, text: str, mode: int, said: str
) -> None:
    gateway = load(tmp_path, f"{{api_keys: {write_keys(tmp_path, text, mode)}}}")
    with pytest.raises(InventoryError) as refusal:
        read_api_keys(gateway)
    assert said in str(refusal.value)
    assert KEY not in str(refusal.value)
    assert "short" not in str(refusal.value)


def test_a_file_of_keys_that_is_not_there_is_refused_with_a_way_to_make_it(tmp_path: Path) -> None:
    gateway = load(tmp_path, f"{{api_keys: {tmp_path}/none}}")
    with pytest.raises(InventoryError, match="No such file") as refusal:
        read_api_keys(gateway)
    assert "openssl rand -hex 24" in str(refusal.value.hint)


def test_the_hash_is_that_of_all_files(tmp_path: Path) -> None:
    gateway = load(tmp_path)
    first = render(gateway, DESK)
    assert first == render(gateway, DESK)
    assert f"setenv SPARKFLEET_GATEWAY {first.hash}\n" in first.files["haproxy.cfg"]
    assert len({first.hash, render(gateway, RACK).hash, render(gateway).hash}) == 3


def test_every_answer_of_its_own_is_an_error_as_openai_has_them(tmp_path: Path) -> None:
    gateway = load(tmp_path, f"{{api_keys: {write_keys(tmp_path)}}}")
    text = render(gateway, DESK, RACK, keys=read_api_keys(gateway)).files["haproxy.cfg"]
    answers = [line.split(" string '")[1].split("'")[0] for line in text.splitlines()
               if " string '{" in line]  # fmt: skip
    assert len(answers) == 11
    for answer in answers:
        assert json.loads(answer)["error"].keys() == {"message", "type", "param", "code"}


def test_a_model_is_started_with_its_aliases() -> None:
    plain, _ = deployed(vllm_served_name="small", gateway={"aliases": {"gpt": "large"}})
    assert plain.aliases == ()
    named, files = deployed(
        vllm_served_name="small", gateway={"aliases": {"gpt": "small", "a": "small", "b": "large"}}
    )
    assert named.aliases == ("a", "gpt")
    words = executed(files["spark-1"]["vllm-serve.sh"])
    at = words.index("--served-model-name")
    assert words[at + 1 : at + 5] == ["small", "a", "gpt", "--host=0.0.0.0"]
    assert named.hash != plain.hash

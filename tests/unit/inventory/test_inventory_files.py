"""All problems of inventory files are reported at once, each with its place."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from sparkfleet import inventory
from sparkfleet.errors import InventoryError
from sparkfleet.inventory import loading
from sparkfleet.inventory.files import tree, yaml_file
from sparkfleet.yaml import source
from sparkfleet.yaml.nodes import Map, Scalar

ROOT = Path(__file__).parents[3]


def _refused(path: Path, text: str | bytes | None = None) -> list[str]:
    """Return ``line:col: message (hint)`` of every problem of an inventory."""
    if isinstance(text, bytes):
        path.write_bytes(text)
    elif text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(InventoryError) as refusal:
        inventory.load_inventory([str(path)])
    return [
        str(problem).splitlines()[0].removeprefix(f"{path}:").strip()
        for problem in refusal.value.problems
    ]


def test_every_problem_of_every_file_is_reported_in_order(tmp_path: Path) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "sparks.yml").write_text("link_mtu: 1\nengine: 2\n")
    hosts = tmp_path / "hosts.yml"
    hosts.write_text(
        "sparks:\n  host: {spark0: }\n  hosts:\n    spark1: {ansible_host: -x, vllm_prot: 1}\n"
        "    spark[2:1]:\n  vars:\n    weights_dir: '{{ nvme }}'\n"
    )
    with pytest.raises(InventoryError) as refusal:
        inventory.load_inventory([str(hosts)])
    result = [
        (str(p.where).removeprefix(f"{tmp_path}/"), p.message) for p in refusal.value.problems
    ]
    assert result == [
        ("group_vars/sparks.yml:1:11", "link_mtu: expected an integer from 1280 to 9216 (got 1)"),
        ("group_vars/sparks.yml:2:9", "engine: expected one of docker, podman, native (got 2)"),
        ("hosts.yml:2:3", "unknown key 'host' in group 'sparks'"),
        ("hosts.yml:4:28", "ansible_host: expected a host name or an address (got '-x')"),
        ("hosts.yml:4:32", "unknown variable vllm_prot"),
        (
            "hosts.yml:5:5",
            "host 'spark[2:1]': the range [2:1] is empty: its end comes before its start",
        ),
        ("hosts.yml:7:18", "weights_dir cannot be rendered: '{{ nvme }}': 'nvme' is undefined"),
    ]


def test_a_problem_shows_the_line_a_caret_and_what_to_type(tmp_path: Path) -> None:
    path = tmp_path / "hosts.ini"
    path.write_text("[sparks]\nspark1 link_mut=9000\n")
    with pytest.raises(InventoryError) as refusal:
        inventory.load_inventory([str(path)])
    assert str(refusal.value) == (
        f"{path}:2:8: unknown variable link_mut\n"
        "    spark1 link_mut=9000\n"
        "           ^\n"
        "  did you mean 'link_mtu'?"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: the inventory is empty"),
        ("# nothing yet\n", "1:1: the inventory is empty"),
        ("[]", "1:1: the inventory is a list, not a mapping of groups"),
        ("plugin: aws_ec2", "1:9: inventory plugins are not supported"),
        ("1: {}", "1:1: a group name must be text (got 1)"),
        ("sparks: spark1", "1:9: group 'sparks' is text, not a mapping of hosts, vars, children"),
        ("sparks: {hosts: [spark1]}", "1:17: hosts of group 'sparks' is a list, not a mapping"),
        ("sparks: {children: 3}", "1:20: children of group 'sparks' is an integer, not a mapping"),
        ("sparks: {hosts: {1: }}", "1:18: a host name must be text (got 1)"),
        ("sparks: {hosts: {spark1: 10.0.0.1}}", "1:26: expected variables (got '10.0.0.1')"),
        ("sparks: {vars: [a]}", "1:16: expected variables (got ['a'])"),
        ("sparks: {vars: {1: x}}", "1:17: a variable name must be text (got 1)"),
        ("sparks: {hosts: {'': }}", "1:18: a host name must be text (got '')"),
        ("a: {children: {a: }}", "1:16: group 'a' cannot be a child of 'a'"),
        ("a: {children: {all: }}", "1:16: group 'all' cannot be a child of 'a'"),
        (
            "a: {children: {b: }}\nb: {children: {c: {children: {a: }}}}",
            "1:16: groups contain each other: a > b > c > a",
        ),
        (
            "a: {vars: {ansible_group_priority: high}}",
            "1:36: ansible_group_priority: expected an integer (got 'high')",
        ),
        (
            "a: {hosts: {'h h': }}",
            "1:13: 'h h' is not a valid host name: use letters, digits and . _ -",
        ),
        ("a: {hosts: {-oProxyCommand=x: }}", "1:13: '-oProxyCommand=x' is not a valid host name"),
        ("a: {hosts: {'x[1:70000]': }}", "1:13: host 'x[1:70000]': the range holds more than"),
        ("sparks:\n\thosts:\n", "2:1: invalid YAML: line indented with a tab"),
    ],
)
def test_a_yaml_file_of_another_shape_is_refused(text: str, expected: str, tmp_path: Path) -> None:
    [problem] = _refused(tmp_path / "hosts.yml", text)
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[sparks:host]\nspark1\n", "1:1: [sparks:host]: unknown section type 'host'"),
        ("[my sparks]\n", "1:1: [my sparks] is not a valid section"),
        ("[sparks]\nspark1 user\n", "2:8: expected name=value (got 'user')"),
        ("[sparks:vars]\n[sparks]\n[sparks:vars]\nuser\n", "4:1: expected name=value (got 'user')"),
        ("[sparks]\n  spark1 x='a\n", "2:3: cannot be split into words: No closing quotation"),
        ("[sparks:vars]\nx=1\n", "1:1: [sparks:vars]: group 'sparks' not found"),
        ("[racks:children]\nsparks\n", "2:1: [racks:children]: group 'sparks' not found"),
        ("[a:children]\na b\n[b]\n", "2:1: 'a b' is not a valid group name"),
        ("all:\n", "1:1: 'all:' is not a host name"),
        ("---\n", "1:1: '---' is not a host name"),
        (
            "[s]\nspark1 x={[]:1}\n",
            "2:8: x: '{[]:1}' is not a valid value: unhashable type: 'list'",
        ),
        ("[s]\nspark1 x=1 x=2\n", "2:12: duplicate key 'x' on one line"),
        ("[s]\n[s:vars]\nx=1\nx=2\n", "4:1: duplicate key 'x', first set on line 3"),
        ("[s]\nspark[1\n", "2:1: host 'spark[1': a range lacks its closing bracket ]"),
        ("", "1:1: the inventory is empty"),
    ],
)
def test_an_ini_file_of_another_shape_is_refused(text: str, expected: str, tmp_path: Path) -> None:
    [problem] = _refused(tmp_path / "hosts.ini", text)
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    ("name", "text"),
    [("hosts.ini", "s[1:3]\ns4\ns5\n"), ("hosts.yml", "a: {hosts: {'s[1:3]': , s4: , s5: }}\n")],
)
def test_more_hosts_than_are_read_are_one_problem(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MAX_HOSTS", 3)
    [problem] = _refused(tmp_path / name, text)
    assert problem.endswith(": more than 3 hosts")


def test_no_garbage_is_collected_while_an_inventory_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took more than half of the time of a file of 1 MB."""
    collected: list[bool] = []

    def check(loaded: object) -> list[object]:
        del loaded
        collected.append(gc.isenabled())
        return []

    monkeypatch.setattr(loading, "check_inventory", check)
    path = tmp_path / "hosts.yml"
    path.write_text("a: {hosts: {s1: {x: 1}}}\n")
    inventory.load_inventory([str(path)])
    assert collected == [False]
    assert gc.isenabled()


def test_the_text_of_a_file_is_not_searched_for_each_variable() -> None:
    """An inventory of 43,000 hosts took 23 s: its text was searched for each of their variables."""
    searches: list[object] = []

    class CountedText(str):
        __slots__ = ()

        def __contains__(self, piece: object) -> bool:
            searches.append(piece)
            return super().__contains__(str(piece))

    text = CountedText("x: 1")
    where = source.Source(file="f.yml", text=text, lines=("x: 1",))
    key = Scalar(source=where, line=1, col=1, value="x")
    value = Scalar(source=where, line=1, col=4, value=1)
    node = Map(source=where, line=1, col=1, entries={"x": (key, value)})
    assert yaml_file.read_variables(node, tree.InventoryTree())["x"].data == 1
    assert searches == []


def test_garbage_is_collected_again_after_an_inventory_is_refused(tmp_path: Path) -> None:
    assert _refused(tmp_path / "hosts.yml", "a: [")
    assert gc.isenabled()


def test_a_file_that_is_not_an_inventory_is_refused_by_name(tmp_path: Path) -> None:
    binary = tmp_path / "hosts"
    assert "byte 0xff" in _refused(binary, b"\x7fELF\xff\x00")[0]
    assert "is larger than 1 MB" in _refused(binary, b"x" * 1_000_001)[0]
    assert "scripts are not supported" in _refused(binary, "#!/bin/sh\necho '{}'\n")[0]
    assert "TOML" in _refused(tmp_path / "hosts.toml", "[a]\n")[0]
    assert _refused(tmp_path / "absent.yml") == ["not found"]
    assert "ansible-vault" in _refused(tmp_path / "v.yml", "$ANSIBLE_VAULT;1.1;AES256\n61\n")[0]


def test_a_bom_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_bytes(b"\xef\xbb\xbfsparks:\r\n  hosts:\r\n    spark1: {x: 1}\r\n")
    assert inventory.load_inventory([str(path)]).hosts["spark1"].get("x") == 1


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("group_vars/sparks.yml", "[a, b]", "expected variables (got ['a', 'b'])"),
        ("group_vars/sparks.yml", "a: 1\na: 2\n", "duplicate key 'a', first set on line 1"),
        ("group_vars/sparks/x.yml", "a: [", "the file ends inside [ or {"),
        (
            "group_vars/all.json",
            '{"link_mtu": "9000"}',
            "expected an integer from 1280 to 9216 (got '9000')",
        ),
        (
            "host_vars/spark1.yml",
            "ansible_port: 0",
            "ansible_port: expected an integer from 1 to 65535",
        ),
        ("host_vars/spark1.yml", "ansible_user: -l", "ansible_user: expected a user name"),
        ("host_vars/spark1.yml", "vllm_port: !vault x", "ansible-vault encryption (!vault)"),
        (
            "host_vars/spark1.yml",
            "ansible_become_password: !vault x",
            "ansible_become_password: ansible-vault encryption (!vault)",
        ),
        ("host_vars/spark1.yml", "vllm_env: {A: [!vault x]}", "vllm_env: ansible-vault"),
        ("group_vars/sparks.yml", "ansible_group_priority: 3", "has no effect here"),
    ],
)
def test_variable_files_are_read_with_the_same_care(
    name: str, text: str, expected: str, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts.yml"
    hosts.write_text("sparks: {hosts: {spark1: }}\n")
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    [problem] = _refused(hosts)
    assert expected in problem
    assert problem.startswith(str(tmp_path / name))


def test_a_group_with_both_a_file_and_a_folder_of_variables_is_refused(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yml"
    hosts.write_text("sparks: {hosts: {spark1: }}\n")
    (tmp_path / "group_vars" / "sparks").mkdir(parents=True)
    (tmp_path / "group_vars" / "sparks.yml").write_text("a: 1\n")
    [problem] = _refused(hosts)
    assert problem.endswith("both exist; Ansible reads only the first")


@pytest.mark.parametrize("name", ["solo", "pair", "switch4", "ring3"])
def test_every_shipped_inventory_is_valid_and_needs_no_jinja_without_templates(name: str) -> None:
    path = ROOT / "inventories" / f"{name}.yml"
    code = (
        "import sys\nfrom sparkfleet import inventory\n"
        f"loaded = inventory.load_inventory([{str(path)!r}])\n"
        "inventory.dump_inventory(loaded)\ninventory.choose_cluster(loaded)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=ROOT
    )
    loaded = {module.partition(".")[0] for module in done.stdout.split()}
    assert not loaded & {"fabric", "paramiko", "invoke", "ray", "rich"}
    assert ("jinja2" in loaded) == ("{{" in path.read_text())


def test_groups_beyond_all_depth_are_refused_before_they_are_walked(tmp_path: Path) -> None:
    names = [f"g{number}" for number in range(20_000)]
    chain = "".join(f"[{one}:children]\n{two}\n" for one, two in itertools.pairwise(names))
    path = tmp_path / "hosts.ini"
    [deep] = _refused(path, f"{chain}[{names[-1]}]\nspark1\n")
    assert deep == "groups are nested more than 100 deep"
    [loop] = _refused(path, f"{chain}[{names[-1]}:children]\ng0\n")
    assert loop.endswith("g0 > g1 > g2 > g3 > ... > g19997 > g19998 > g19999 > g0")


ENCRYPTED = "$ANSIBLE_VAULT;1.1;AES256\n6162\n"


def _write_estate(folder: Path, files: dict[str, str]) -> Path:
    hosts = folder / "hosts.yml"
    hosts.write_text("sparks: {hosts: {spark1: }}\nweb: {hosts: {web1: }}\n")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return hosts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("group_vars/web.yml", ENCRYPTED),
        ("group_vars/web/vault.yml", ENCRYPTED),
        ("group_vars/web/vars.yml", "token: !vault x\n"),
        ("host_vars/web1.yml", ENCRYPTED),
    ],
)
def test_encrypted_variables_of_other_groups_stop_nothing(
    name: str, text: str, tmp_path: Path
) -> None:
    loaded = inventory.load_inventory([str(_write_estate(tmp_path, {name: text}))])
    assert list(loaded.hosts) == ["spark1", "web1"]
    assert loaded.encrypted == ()


def test_an_encrypted_file_next_to_plain_ones_is_passed_over_and_named(tmp_path: Path) -> None:
    files = {"group_vars/all/vars.yml": "vllm_port: 8001\n", "group_vars/all/vault.yml": ENCRYPTED}
    loaded = inventory.load_inventory([str(_write_estate(tmp_path, files))])
    assert loaded.hosts["spark1"].get("vllm_port") == 8001
    assert loaded.encrypted == (str(tmp_path / "group_vars/all/vault.yml"),)


def test_a_variable_that_needs_an_encrypted_file_is_refused_with_its_name(tmp_path: Path) -> None:
    files = {
        "group_vars/all/vars.yml": 'ansible_user: "{{ vault_user }}"\n',
        "group_vars/all/vault.yml": ENCRYPTED,
    }
    hosts = _write_estate(tmp_path, files)
    with pytest.raises(InventoryError, match="vault_user") as refusal:
        inventory.load_inventory([str(hosts)])
    assert str(tmp_path / "group_vars/all/vault.yml") in str(refusal.value.problems[0].hint)


@pytest.mark.parametrize(
    "text",
    [
        "k3s_token: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  61\n",
        "k3s_token: {a: [1, !vault-encrypted x]}\n",
        "ansible_password: !vault x\nk3s_token: !vault x\n",
    ],
)
def test_an_encrypted_variable_of_another_tool_is_left_out_and_named(
    text: str, tmp_path: Path
) -> None:
    files = {"host_vars/spark1.yml": f"{text}vllm_port: 8001\n"}
    loaded = inventory.load_inventory([str(_write_estate(tmp_path, files))])
    assert loaded.hosts["spark1"].get("vllm_port") == 8001
    assert loaded.hosts["spark1"].get("k3s_token") is None
    assert f"k3s_token ({tmp_path}/host_vars/spark1.yml:" in loaded.encrypted[-1]


def test_an_encrypted_variable_in_the_inventory_itself_is_named_where_it_is_needed(
    tmp_path: Path,
) -> None:
    hosts = tmp_path / "hosts.yml"
    text = "sparks:\n  hosts: {spark1: }\n  vars:\n    hf_secret: !vault x\n"
    hosts.write_text(text)
    assert list(inventory.load_inventory([str(hosts)]).hosts) == ["spark1"]
    hosts.write_text(text + '    ansible_user: "{{ hf_secret }}"\n')
    with pytest.raises(InventoryError, match="hf_secret") as refusal:
        inventory.load_inventory([str(hosts)])
    hint = str(refusal.value.problems[0].hint)
    assert f"not read because of encryption: hf_secret ({hosts}:4:16)" in hint


def test_encrypted_variables_of_sparks_are_refused(tmp_path: Path) -> None:
    hosts = _write_estate(tmp_path, {"group_vars/sparks.yml": ENCRYPTED})
    assert "is encrypted with ansible-vault" in _refused(hosts)[0]


def test_other_mistakes_in_variables_of_other_groups_are_still_reported(tmp_path: Path) -> None:
    hosts = _write_estate(tmp_path, {"group_vars/web.yml": "a: ["})
    assert "the file ends inside [ or {" in _refused(hosts)[0]


SOPS = "token: ENC[AES256_GCM,data:qk,iv:a=,tag:b=,type:str]\nsops:\n  version: 3.9.0\n"
TOOLS = [
    (b"$ANSIBLE_VAULT;1.1;AES256\n61\n", "ansible-vault", "from_file"),
    (b"\0GITCRYPT\0\x9a\xff\0", "git-crypt", "git-crypt unlock"),
    (SOPS.encode(), "sops", "sops decrypt"),
    (b'{"a": "ENC[AES256_GCM,data:x]",\n "sops": {"mac": "y"}}', "sops", "sops decrypt"),
    (b"age-encryption.org/v1\n-> X25519 a\n\xff", "age", "age --decrypt"),
    (b"-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n", "age", "age --decrypt"),
    (b"-----BEGIN PGP MESSAGE-----\n\nhQ\n", "GnuPG", "gpg "),
    # Of files as in https://github.com/uwapcs/secrets and FreifunkVogtland/ansible-config
    (b"U2FsdGVkX194eHh4eHh4eA==\n", "openssl", "transcrypt"),
    (b"Salted__\x8f\x90\x01", "openssl", "transcrypt"),
    (b"\x85\x01\x0c\x03\x9a\x02", "GnuPG", "gpg "),
    (b"\x8c\x0d\x04\x09\x03\x02", "GnuPG", "gpg "),
    (b"\xef\xbb\xbf\r\n$ANSIBLE_VAULT;1.2;AES256;lab\r\n61\r\n", "ansible-vault", "from_file"),
    (b'{"a": "ENC[AES256_GCM,data:x]","sops":{"mac":"y"}}', "sops", "sops decrypt"),
]


TOOL_IDS = [f"{number}-{tool}" for number, (_, tool, _) in enumerate(TOOLS)]


@pytest.mark.parametrize(("content", "tool", "fix"), TOOLS, ids=TOOL_IDS)
def test_an_encrypted_file_is_named_as_that_with_its_fix(
    tmp_path: Path, content: bytes, tool: str, fix: str
) -> None:
    hosts = _write_estate(tmp_path, {})
    path = tmp_path / "group_vars/sparks.yml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(InventoryError, match=f"is encrypted with {tool}") as refusal:
        inventory.load_inventory([str(hosts)])
    (problem,) = refusal.value.problems
    assert fix in str(problem.hint)
    hosts.write_bytes(content)
    with pytest.raises(InventoryError, match=f"is encrypted with {tool}"):
        inventory.load_inventory([str(hosts)])


@pytest.mark.parametrize(("content", "tool", "fix"), TOOLS, ids=TOOL_IDS)
def test_an_encrypted_file_that_no_spark_needs_stops_nothing(
    tmp_path: Path, content: bytes, tool: str, fix: str
) -> None:
    del tool, fix
    files = {"group_vars/all/vars.yml": "vllm_port: 8001\n", "group_vars/web.yml": "a: 1\n"}
    hosts = _write_estate(tmp_path, files)
    (tmp_path / "group_vars/all/secrets.yml").write_bytes(content)
    (tmp_path / "group_vars/web.yml").write_bytes(content)
    loaded = inventory.load_inventory([str(hosts)])
    assert loaded.hosts["spark1"].get("vllm_port") == 8001
    assert loaded.encrypted == (str(tmp_path / "group_vars/all/secrets.yml"),)


def test_a_file_for_the_sops_plugin_is_named_as_passed_over(tmp_path: Path) -> None:
    names = ("all.sops.yaml", "web.sops.yml", "sparks.sops.json")  # as in ironicbadger/infra
    loaded = inventory.load_inventory(
        [str(_write_estate(tmp_path, {f"group_vars/{name}": SOPS for name in names}))]
    )
    folder = tmp_path / "group_vars"
    assert set(loaded.encrypted) == {
        str(folder / name) for name in ("all.sops.yaml", "sparks.sops.json")
    }


@pytest.mark.parametrize(
    "text",
    [
        "note: 'sops: ENC[AES256_GCM,data:x]'\n",
        "a: 'ENC[AES256_GCM,data:x]'\n",
        "sops: {kms: []}\n",
    ],
)
def test_a_file_that_only_mentions_encryption_is_read(tmp_path: Path, text: str) -> None:
    hosts = _write_estate(tmp_path, {"group_vars/sparks.yml": text})
    assert inventory.load_inventory([str(hosts)]).encrypted == ()


def test_a_file_of_nothing_but_mistakes_is_not_read_to_its_end(tmp_path: Path) -> None:
    assert 1000 < len(_refused(tmp_path / "hosts.ini", "- a\n" * 3000)) < 1010

"""An inventory is read as the pinned ansible-inventory reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkfleet import inventory
from sparkfleet.errors import InventoryError
from sparkfleet.model import Inventory

pytestmark = pytest.mark.contract

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CORPUS = HERE / "inventories"
GENERATED = 60  # inventories of each form

Sources: TypeAlias = dict[str, list[str]]
Answers: TypeAlias = dict[str, Any]


def _ask(sources: Sources, *actions: str, patterns: tuple[str, ...] = ()) -> Answers:
    """Return what the real Ansible says about every inventory, from a folder that sets nothing."""
    request = {
        name: {"sources": files, "actions": actions, "patterns": patterns}
        for name, files in sources.items()
    }
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    done = subprocess.run(
        [sys.executable, HERE / "ansible_batch.py"],
        input=json.dumps(request),
        capture_output=True,
        check=True,
        text=True,
        cwd=HERE,
        env={**env, "LC_ALL": "C.UTF-8"},
    )
    answers: Answers = json.loads(done.stdout)
    return answers


def _corpus() -> Sources:
    found = {path.name: [str(path)] for path in sorted(CORPUS.iterdir()) if path.is_file()}
    for path in sorted(CORPUS.iterdir()):
        if path.is_dir() and path.name not in ("folder", "two-sources", "stricter"):
            found[path.name] = [str(_main_file(path))]
    one, two = CORPUS / "two-sources/one/hosts.yml", CORPUS / "two-sources/two/hosts.ini"
    return found | {
        "folder": [str(CORPUS / "folder")],
        "folder and file": [str(CORPUS / "folder"), str(CORPUS / "nested-groups.yml")],
        "one, then two": [str(one), str(two)],
        "two, then one": [str(two), str(one)],
        "list": ["spark1,spark2:2222,192.168.1.3,"],
        "list and file": ["spark9,spark1", str(one)],
    }


def _shipped() -> Sources:
    files = sorted((ROOT / "inventories").glob("*.yml"))
    return {f"shipped {file.name}": [str(file)] for file in files if file.name != "local.yml"}


SECRETS = frozenset({"token", "k3s_token"})  # of the corpus


def _main_file(folder: Path) -> Path:
    [file] = [x for x in folder.rglob("*") if x.is_file() and x.stem in ("hosts", "inventory")]
    return file


EQUAL = _corpus() | _shipped()
PATTERNS = (
    "all",
    "*",
    "spark*",
    "spark*:!spark2",
    "all,!spark1",
    "sparks:&racks",
    "~s.*[13]$",
    "spark?",
    "spark[12]",
    "all[0]",
    "all[-1]",
    "all[1:2]",
    "all[1:]",
    "*[0]",
    "spark*[1:3]",
    "!spark1",
    "&sparks",
    "sparks:racks",
    "ungrouped",
    "localhost",
)


@pytest.fixture(scope="module")
def ansible() -> Answers:
    return _ask(EQUAL, "--list", "--graph", patterns=PATTERNS)


def _listed(files: list[str]) -> Any:
    return json.loads(json.dumps(inventory.dump_inventory(inventory.load_inventory(files))))


def _hide_secrets(data: Any) -> Any:
    """Return what Ansible lists without the secrets of the corpus, which it shows."""
    if isinstance(data, dict):
        return {
            key: "(secret)" if key in SECRETS else _hide_secrets(item) for key, item in data.items()
        }
    return data


def test_the_peer_is_the_pinned_ansible() -> None:
    assert version("ansible-core").startswith("2.19.")


def test_the_corpus_holds_sixty_inventories() -> None:
    assert len(EQUAL) + 2 * GENERATED + len(STRICTER) > 60


@pytest.mark.parametrize("name", EQUAL)
def test_hosts_groups_and_variables_are_ansibles(name: str, ansible: Answers) -> None:
    assert _listed(EQUAL[name]) == _hide_secrets(ansible[name]["--list"])


@pytest.mark.parametrize("name", EQUAL)
def test_the_graph_is_ansibles(name: str, ansible: Answers) -> None:
    assert (
        inventory.format_group_graph(inventory.load_inventory(EQUAL[name]))
        == ansible[name]["--graph"]
    )


@pytest.mark.parametrize("name", EQUAL)
def test_patterns_select_what_ansible_selects(name: str, ansible: Answers) -> None:
    ours = inventory.load_inventory(EQUAL[name])
    mine = {pattern: _selected(ours, pattern) for pattern in PATTERNS}
    theirs = ansible[name]["patterns"]
    # stricter: where one of several terms matches nothing, Ansible warns and we refuse
    refused = [pattern for pattern, names in mine.items() if names is None]
    assert all(
        any(mark in pattern for mark in ":,&![") or not theirs[pattern] for pattern in refused
    )
    assert {p: names for p, names in mine.items() if names} == {
        p: names for p, names in theirs.items() if p not in refused
    }


def _selected(ours: Inventory, pattern: str) -> list[str] | None:
    try:
        return [host.name for host in inventory.select_hosts(ours, pattern)]
    except InventoryError:
        return None


STRICTER = {
    "a value set twice in YAML": ("duplicate-key.yml", "duplicate key 'rack'"),
    "a host written twice in YAML": ("duplicate-host.yml", "duplicate key 'spark1'"),
    "a value set twice on one line": ("duplicate-key.ini", "duplicate key 'rack'"),
    "a group value set twice in INI": ("duplicate-group-var.ini", "duplicate key 'rack'"),
    "a misspelt name of ours": ("misspelt-variable.yml", "did you mean 'link_mtu'?"),
    "text where we need an integer": ("wrong-type.yml", "link_mtu: expected an integer"),
    "a port beyond the last": (
        "out-of-range.yml",
        "expected an integer from 1 to 65535 (got 70000)",
    ),
    "a choice that there is not": ("unknown-choice.ini", "link_topology: expected"),
    "a template of ours that cannot be rendered": (
        "undefined-in-ours.yml",
        "'nvme_root' is undefined",
    ),
    "a range that is empty": ("empty-range.yml", "its end comes before its start"),
    "a section that there is not": ("unknown-section.yml", "did you mean 'hosts'?"),
    "text in place of a group": ("group-is-text.yml", "group 'racks' is text"),
    "a number in place of variables": ("host-value-is-zero.yml", "expected variables (got 0)"),
    "an SSH option as the address": ("option-as-address.yml", "'-oProxyCommand=reboot'"),
    "shell text in an address": ("shell-in-address.ini", "'10.0.0.1;reboot'"),
    "an address of two hosts": ("same-address-twice.yml", "have the same address 192.168.1.11"),
    "a head outside of sparks": ("head-outside.yml", "head 'nas' is not in the group `sparks`"),
    "a cluster of nobody": ("cluster-without-hosts.yml", "'spark7' matches no host"),
    "an encrypted value of ours": ("vaulted-value.yml", "ansible-vault encryption (!vault)"),
    "group_vars both as file and as folder": ("two-files-one-group", "both exist"),
    "a priority where it has no effect": ("priority-in-group-vars", "has no effect"),
    "lists in lists in lists": ("nested-too-deep.yml", "nested more than 100 deep"),
    "YAML sets": ("set-tag.yml", "the tag !!set is not supported"),
}


@pytest.fixture(scope="module")
def lenient_ansible() -> Answers:
    return _ask({why: [str(_stricter(file))] for why, (file, _) in STRICTER.items()}, "--list")


def _stricter(name: str) -> Path:
    path = CORPUS / "stricter" / name
    return path if path.is_file() else path / "hosts.yml"


@pytest.mark.parametrize("why", STRICTER)
def test_we_refuse_on_purpose_what_ansible_takes(why: str, lenient_ansible: Answers) -> None:
    file, message = STRICTER[why]
    assert "sparks" in lenient_ansible[why]["--list"] or "dgx" in lenient_ansible[why]["--list"]
    with pytest.raises(InventoryError) as refusal:
        inventory.load_inventory([str(_stricter(file))])
    assert message in str(refusal.value)
    assert refusal.value.exit_code == 5


BROKEN = sorted((CORPUS / "stricter" / "broken").iterdir())


@pytest.fixture(scope="module")
def silent_ansible() -> Answers:
    return _ask({path.name: [str(path)] for path in BROKEN}, "--list")


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: str(path.name))
def test_we_refuse_what_ansible_skips_with_a_warning(path: Path, silent_ansible: Answers) -> None:
    assert silent_ansible[path.name]["--list"] is not None
    with pytest.raises(InventoryError) as refusal:
        inventory.load_inventory([str(path)])
    assert all(problem.where for problem in refusal.value.problems)


NAMES = st.sampled_from([f"name{number}" for number in range(8)])
GROUPS = [f"g{number}" for number in range(7)]
HOSTS = st.sampled_from(
    ["h1", "h2", "h3", "h4.lan", "192.168.1.9", "r[1:3]", "r[08:10:2]", "x[a:b]-[1:2]", "p1:2222"]
)
TEXTS = st.text("ab1 :#-{}[],'\"\\$%é=", max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def yaml_inventories(draw: st.DrawFn) -> str:
    """Return groups whose children come later in the alphabet, so that there is no loop."""
    tree: dict[str, Any] = {}
    for index, name in enumerate(GROUPS):
        variables = draw(st.dictionaries(NAMES, VALUES, max_size=3))
        if priority := draw(st.sampled_from([None, None, 0, 5, 10])):
            variables["ansible_group_priority"] = priority
        hosts = draw(st.dictionaries(HOSTS, st.dictionaries(NAMES, VALUES, max_size=2), max_size=3))
        children = draw(st.lists(st.sampled_from([*GROUPS[index + 1 :], "g9"]), max_size=2))
        group = {"hosts": hosts, "vars": variables, "children": dict.fromkeys(children)}
        tree[draw(st.sampled_from([name, name, "all"]))] = group
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=draw(st.booleans()))


INI_VALUES = st.sampled_from(
    ["1", "text", "True", "'1'", '"two words"', "[1,2]", "{'a':1}", "1.5", "a=b", "x#y", "", "~/x"]
) | st.text("ab1.:-_/", max_size=6)


@st.composite
def ini_inventories(draw: st.DrawFn) -> str:
    """Return sections in any order; variables are set once."""
    lines = [draw(HOSTS) for _ in range(draw(st.integers(0, 2)))]
    for index in draw(st.permutations(range(len(GROUPS)))):
        lines.append(f"[{GROUPS[index]}]")
        for host in draw(st.lists(HOSTS, max_size=3)):
            pairs = draw(st.dictionaries(NAMES, INI_VALUES, max_size=2)).items()
            lines.append(" ".join([host, *(f"{name}={value}" for name, value in pairs)]))
        lines.append(f"[{GROUPS[index]}:vars]")
        lines += [f"{k} = {v}" for k, v in draw(st.dictionaries(NAMES, INI_VALUES)).items()]
        lines.append(f"[{GROUPS[index]}:children]")
        lines += draw(st.lists(st.sampled_from(GROUPS[index + 1 :] or ["g6x"]), max_size=2))
    return "\n".join([*lines, "[g6x]", ""])


@pytest.mark.parametrize(
    ("form", "texts"), [("yml", yaml_inventories()), ("ini", ini_inventories())]
)
def test_generated_inventories_are_read_as_ansible_reads_them(
    form: str, texts: st.SearchStrategy[str], tmp_path: Path
) -> None:
    sources: Sources = {}

    @settings(
        max_examples=GENERATED,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(texts)
    def write(text: str) -> None:
        path = tmp_path / f"{len(sources)}.{form}"
        path.write_text(text, encoding="utf-8")
        sources[path.name] = [str(path)]

    write()
    assert len(sources) >= GENERATED // 2
    answers = _ask(sources, "--list")
    assert {name: _listed(files) for name, files in sources.items()} == {
        name: answer["--list"] for name, answer in answers.items()
    }


def test_the_command_itself_agrees_on_a_host_and_an_extra_variable() -> None:
    pair = str(ROOT / "inventories" / "pair.yml")
    done = subprocess.run(
        ["ansible-inventory", "-i", pair, "--host", "spark2", "-e", '{"link_mtu": 1500}'],
        capture_output=True,
        check=True,
        cwd=HERE,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )
    ours = inventory.load_inventory([pair], extra_vars={"link_mtu": 1500})
    assert inventory.dump_host_vars(ours, "spark2") == json.loads(done.stdout)

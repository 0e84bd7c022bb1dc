"""Templates in inventories: sparkfleet's are rendered or refused, foreign ones rendered or left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet import inventory
from sparkfleet.errors import InventoryError
from sparkfleet.model import Inventory


def _load(
    folder: Path, variables: str, hosts: str = "spark1: , spark2: {prefix: 10.0.1}"
) -> Inventory:
    path = folder / "hosts.yml"
    path.write_text(f"sparks:\n  hosts: {{{hosts}}}\n  vars:\n    prefix: 10.0.0\n{variables}")
    return inventory.load_inventory([str(path)])


def _value(loaded: Inventory, name: str, host: str = "spark1") -> Any:
    return loaded.hosts[host].get(name)


def test_a_value_is_rendered_for_each_host_and_dumped_as_written(tmp_path: Path) -> None:
    loaded = _load(tmp_path, '    ansible_host: "{{ prefix }}.{{ inventory_hostname[5:] }}"\n')
    assert [host.address for host in loaded.hosts.values()] == ["10.0.0.1", "10.0.1.2"]
    written = "{{ prefix }}.{{ inventory_hostname[5:] }}"
    assert inventory.dump_host_vars(loaded, "spark1")["ansible_host"] == written
    assert (
        inventory.explain_host_variable(loaded, "spark1", "ansible_host")[2]
        == f'  rendered from "{written}"'
    )


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ inventory_hostname_short }}", "spark1"),
        ("{{ group_names }}", ["sparks"]),
        ("{{ groups['sparks'] }}", ["spark1", "spark2"]),
        ("{{ hostvars['spark2'].prefix }}", "10.0.1"),
        ("{{ hostvars[groups['sparks'][1]]['prefix'] }}", "10.0.1"),
        ("{{ hostvars['spark2']['ansible_host'] | default(inventory_hostname) }}", "spark1"),
        ("{{ inventory_dir }}", "FOLDER"),
        ("{{ inventory_file }}", "FOLDER/hosts.yml"),
        ("{{ hostvars | length }}", 2),
    ],
)
def test_a_template_sees_ansibles_magic_variables(
    template: str, value: object, tmp_path: Path
) -> None:
    loaded = _load(tmp_path, f'    mine: "{template}"\n')
    seen = _value(loaded, "mine")
    assert (seen.replace(str(tmp_path), "FOLDER") if isinstance(seen, str) else seen) == value


def test_a_template_may_need_another_template(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path, '    a: "{{ b }}!"\n    b: "{{ prefix }}"\n    link_mtu: "{{ 9000 }}"\n'
    )
    assert _value(loaded, "a") == "10.0.0!"
    assert _value(loaded, "link_mtu") == 9000


def test_templates_inside_lists_and_mappings_are_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    loaded = _load(tmp_path, "    vllm_env: {HF_TOKEN: \"{{ lookup('env', 'HF_TOKEN') }}\"}\n")
    assert _value(loaded, "vllm_env") == {"HF_TOKEN": "hf_x"}


@pytest.mark.parametrize(
    "template",
    [
        "{{ ansible_facts['hostname'] }}",
        "{{ lookup('password', 'x') }}",
        "{{ 5 | ipaddr }}",
        "docker ps --format '{{.ID}}'",
    ],
)
def test_a_foreign_value_that_only_ansible_can_render_stays_as_written(
    template: str, tmp_path: Path
) -> None:
    assert _value(_load(tmp_path, f'    mine: "{template}"\n'), "mine") == template


def test_a_foreign_value_fails_where_something_reads_it(tmp_path: Path) -> None:
    loaded = _load(tmp_path, '    mine: "{{ ansible_facts.hostname }}"\n')
    context = inventory.build_host_context(loaded, "spark1")
    assert context["prefix"] == "10.0.0"
    with pytest.raises(InventoryError, match="'ansible_facts' is undefined") as refusal:
        context["mine"]
    assert str(refusal.value.problems[0].where).endswith("hosts.yml:5:11")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('    weights_dir: "{{ nvme }}"\n', "weights_dir cannot be rendered"),
        ('    ansible_user: "{{ admin }}"\n', "'admin' is undefined"),
        ('    link_mtu: "{{ 1500"\n', "Jinja syntax"),
        ('    link_mtu: "{{ prefix }}"\n', "expected an integer from 1280 to 9216 (got '10.0.0')"),
        ('    vllm_model: "{{ vllm_model }}"\n', "circular reference: vllm_model -> vllm_model"),
        ('    a: "{{ vllm_model }}"\n    vllm_model: "{{ a }}"\n', "circular reference"),
        ('    ansible_host: "{{ prefix }}"\n', "expected a host name"),
    ],
)
def test_a_needed_value_that_cannot_be_rendered_is_reported_once(
    text: str, expected: str, tmp_path: Path
) -> None:
    hosts = "spark1: " if "ansible_host" not in text else "spark1: {prefix: a b}"
    with pytest.raises(InventoryError) as refusal:
        _load(tmp_path, text, hosts)
    [problem] = refusal.value.problems
    assert expected in problem.message
    assert problem.where is not None
    assert problem.where.line in (5, 6)


def test_unsafe_text_is_never_rendered(tmp_path: Path) -> None:
    loaded = _load(tmp_path, '    vllm_served_name: !unsafe "{{ prefix }}"\n')
    assert _value(loaded, "vllm_served_name") == "{{ prefix }}"

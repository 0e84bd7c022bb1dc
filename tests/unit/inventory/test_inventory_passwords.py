"""The password for sudo in an inventory: how it may be given, and that nothing shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkfleet import inventory as inventories
from sparkfleet.errors import InventoryError
from sparkfleet.inventory.passwords import read_sudo_password

SECRET = "hush-hush"


def _file(folder: Path, line: str, *, mode: int = 0o600, name: str = "inventory.yml") -> str:
    path = folder / name
    path.write_text(f"sparks:\n  hosts:\n    spark1:\n  vars:\n    {line}\n")
    path.chmod(mode)
    return str(path)


def _password(*sources: str, **given: object) -> str:
    return read_sudo_password(
        inventories.load_inventory(sources, extra_vars=given).hosts["spark1"].vars
    )


def _refusal(*sources: str, **given: object) -> InventoryError:
    with pytest.raises(InventoryError) as caught:
        _password(*sources, **given)
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("line", "password"),
    [
        (f"ansible_become_password: {SECRET}", SECRET),
        (f"ansible_become_pass: {SECRET}", SECRET),
        (f"{{ansible_become_pass: {SECRET}, ansible_become_password: weaker}}", SECRET),
        ("ansible_become_password: \"{{ lookup('env', 'SPARK_SUDO') }}\"", SECRET),
        ("ansible_become_password: \"{{ lookup('env', 'NOT_SET') | default('', true) }}\"", ""),
        ("ansible_become_password:", ""),
        ("ansible_user: me", ""),
    ],
)
def test_a_password_is_given_as_in_ansible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, password: str
) -> None:
    monkeypatch.setenv("SPARK_SUDO", SECRET)
    assert _password(_file(tmp_path, line)) == password


def test_a_password_can_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text(f"{SECRET}\n")
    kept.chmod(0o600)
    shared = _file(tmp_path, f"ansible_become_password: {{from_file: {kept}}}", mode=0o644)
    assert _password(shared) == SECRET
    assert _password(shared, ansible_become_password={"from_file": str(kept)}) == SECRET
    kept.chmod(0o640)
    error = _refusal(shared)
    assert error.message == (
        f"ansible_become_password is a password, but other users can read {kept} (mode 0640)"
    )
    assert error.hint == f"type: chmod 600 {kept}"


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "is empty"), (b"a\nb\n", "2 lines"), (b"\xff", "not a text file")]
)
def test_a_file_holds_the_password_alone(tmp_path: Path, content: bytes, reason: str) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(content)
    kept.chmod(0o600)
    line = f"ansible_become_password: {{from_file: {kept}}}"
    assert reason in _refusal(_file(tmp_path, line)).message
    kept.unlink()
    assert "No such file or directory" in _refusal(_file(tmp_path, line)).message


def test_a_password_in_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    source = _file(tmp_path, f"ansible_become_password: {SECRET}", mode=0o644)
    error = _refusal(source)
    assert f"other users can read {source} (mode 0644)" in error.message
    assert error.hint == f"type: chmod 600 {source}"


def test_a_password_on_the_command_line_is_refused(tmp_path: Path) -> None:
    error = _refusal(_file(tmp_path, "ansible_user: me"), ansible_become_password=SECRET)
    assert "every user of this machine can read a command line" in error.message
    assert "--ask-become-pass" in str(error.hint)


def test_a_lookup_that_only_ansible_has_is_reported_when_needed(tmp_path: Path) -> None:
    line = "ansible_become_password: \"{{ lookup('community.general.passwordstore', 'x') }}\""
    error = _refusal(_file(tmp_path, line))
    assert error.message == "ansible_become_password cannot be rendered here"


@pytest.mark.parametrize("value", ["0123", f"[{SECRET}]", f"{{file: {SECRET}}}", f'"{SECRET}\\n"'])
def test_a_value_that_is_not_a_password_is_refused_unseen(tmp_path: Path, value: str) -> None:
    error = _refusal(_file(tmp_path, f"ansible_become_password: {value}"))
    assert error.message == (
        "ansible_become_password: expected one line of text, in quotes, or {from_file: PATH}"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "twice.yml",
            f"sparks:\n  vars: {{ansible_become_pass: {SECRET}, ansible_become_pass: 1}}",
        ),
        ("broken.yml", f"sparks:\n  vars: {{ansible_become_password: {SECRET}: 1}}\n"),
        ("spaces.ini", f"[sparks]\nspark1 ansible_become_password = {SECRET}\n"),
        ("port.ini", f"[sparks]\nspark1 ansible_port=x ansible_become_password={SECRET}\n"),
    ],
)
def test_an_error_next_to_a_password_does_not_quote_it(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    _refusal(str(tmp_path / name))


@pytest.mark.parametrize(
    "name", ["ansible_become_password", "ansible_become_pass", "ansible_password"]
)
def test_nothing_shows_a_password(tmp_path: Path, name: str) -> None:
    weak = _file(tmp_path, f"{name}: {SECRET}-too", name="weak.yml")
    loaded = inventories.load_inventory([weak, _file(tmp_path, f"{name}: {SECRET}")])
    result = inventories.explain_host_variable(loaded, "spark1", name)
    assert result[0] == f"{name} on spark1: (secret)"
    assert len(result) == 3
    shown = json.dumps(
        [result, inventories.dump_inventory(loaded), inventories.dump_host_vars(loaded, "spark1")]
    )
    assert SECRET not in shown
    assert inventories.dump_host_vars(loaded, "spark1")[name] == "(secret)"


@pytest.mark.parametrize(
    "name",
    [
        "gpustack_token",
        "k3s_token",
        "apiKey",
        "hf_token",
        "registry_password",
        "mysql_root_password",
        "vault_pass",
        "ngc_api_key",
        "aws_secret_access_key",
        "wifi_psk",
        "client_secret",
        "tailscale_authkey",
        "github_pat",
        "wg_private_key",
        "litellm_master_key",
        "registry_credentials",
        "k3s_server_token",
        "user_password",
        "gpg_passphrase",
        "url_token",
    ],
)
def test_a_secret_of_another_tool_is_not_shown(tmp_path: Path, name: str) -> None:
    for written in (SECRET, f"[{SECRET}]", f"{{of: {SECRET}, on: true}}"):
        loaded = inventories.load_inventory([_file(tmp_path, f"{name}: {written}")])
        shown = [
            inventories.explain_host_variable(loaded, "spark1", name),
            inventories.dump_inventory(loaded),
            inventories.dump_host_vars(loaded, "spark1"),
        ]
        assert SECRET not in json.dumps(shown), written
        assert "(secret)" in json.dumps(shown[0]), written


def test_a_secret_in_a_mapping_of_another_tool_is_not_shown(tmp_path: Path) -> None:
    line = f"k3s: {{server: here, agents: [{{token: {SECRET}, port: 6443}}]}}"
    loaded = inventories.load_inventory([_file(tmp_path, line)])
    variables = inventories.dump_host_vars(loaded, "spark1")["k3s"]
    assert variables == {"server": "here", "agents": [{"token": "(secret)", "port": 6443}]}
    result = inventories.explain_host_variable(loaded, "spark1", "k3s")
    assert SECRET not in json.dumps(result)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("ansible_ssh_private_key_file", "~/.ssh/id"),
        ("ssh_public_key", "ssh-ed25519 AAAA"),
        ("authorized_keys", "ssh-ed25519 AAAA"),
        ("max_tokens", 100),
        ("token_file", "/etc/token"),
        ("apt_key_url", "here"),
        ("tokenizer_mode", "auto"),
        ("gpu_passthrough", "on"),
        ("keyboard_layout", "de"),
        ("use_token", True),
        ("gpustack_token", "{{ vault_gpustack_token }}"),
        ("gpustack_token", "{{ lookup('env', 'TOKEN') }}"),
        ("gpustack_token", None),
    ],
)
def test_a_variable_that_holds_no_secret_is_shown(
    tmp_path: Path, name: str, written: object
) -> None:
    loaded = inventories.load_inventory([_file(tmp_path, f"{name}: {json.dumps(written)}")])
    assert inventories.dump_host_vars(loaded, "spark1")[name] == written


def test_the_way_to_a_password_is_shown(tmp_path: Path) -> None:
    way = "{{ lookup('env', 'SPARK_SUDO') }}"
    loaded = inventories.load_inventory([_file(tmp_path, f'ansible_become_password: "{way}"')])
    assert inventories.dump_host_vars(loaded, "spark1")["ansible_become_password"] == way
    loaded = inventories.load_inventory(
        [_file(tmp_path, "ansible_become_password: {from_file: ~/kept}")]
    )
    (first, _) = inventories.explain_host_variable(loaded, "spark1", "ansible_become_password")
    assert first == 'ansible_become_password on spark1: {"from_file": "~/kept"}'

"""A model that sparkfleet did not stage is removed by hand; the hint is safe to type."""

from __future__ import annotations

import pytest

from sparkfleet.errors import UsageError
from sparkfleet.model import Host, Value
from sparkfleet.remote.local import LocalConnection
from sparkfleet.weights.model_store import StoredModel, remove_stored_model


@pytest.mark.parametrize(
    ("connection", "folder", "command"),
    [
        ("local", "mine", "rm -r ~/vllm/mine"),
        ("local", "a b; reboot", "rm -r ~/'vllm/a b; reboot'"),
        ("ssh", "mine", "ssh -F none -p 2222 me@10.0.0.9 'rm -r ~/vllm/mine'"),
    ],
)
def test_the_hint_reaches_the_host_as_sparkfleet_does(
    connection: str, folder: str, command: str
) -> None:
    variables = {
        "ansible_connection": connection,
        "ansible_host": "10.0.0.9",
        "ansible_user": "me",
        "ansible_port": 2222,
        "ansible_ssh_common_args": "-F none",
    }
    host = Host(name="a", vars={name: Value(data=data) for name, data in variables.items()})
    model = StoredModel(folder=folder, bytes=1, files=1, partial=0, commits=(), staged=False)
    with pytest.raises(UsageError, match="was not staged by sparkfleet") as refused:
        remove_stored_model(LocalConnection(host), "~/vllm", model)
    assert refused.value.hint == f"to remove it: {command}"

"""The environment file of a deployment: one parser for the drift and for what programs have."""

from __future__ import annotations

import pytest

from sparkfleet.onhost.host.environment import parse_expected
from sparkfleet.onhost.shared.environment_file import parse_exports

TEXT = """\
# how the host reaches the others
export NCCL_SOCKET_IFNAME='enp1s0f0np0'   # the cage
export NOTE='two words'
unset NCCL_IB_GID_INDEX
if [ -s "$token" ]; then
    export RAY_AUTH_MODE=token
fi
export HERE="$HOME/vllm"
"""
EXPORTS = {
    "NCCL_SOCKET_IFNAME": "enp1s0f0np0",
    "NOTE": "two words",
    "NCCL_IB_GID_INDEX": None,
    "RAY_AUTH_MODE": "token",
    "HERE": "$HOME/vllm",
}


def test_a_file_is_read_as_the_shell_reads_it() -> None:
    assert parse_exports(TEXT) == EXPORTS


def test_what_the_shell_looks_up_is_not_compared_with_programs() -> None:
    assert parse_expected(TEXT) == {name: EXPORTS[name] for name in EXPORTS if name != "HERE"}


@pytest.mark.parametrize("text", ["", "export", "unset", "export 'NCCL_DEBUG=INFO", "export ="])
def test_a_file_cut_short_has_no_variables(text: str) -> None:
    assert parse_exports(text) == {}

"""Any known_hosts, ssh_config and SSH arguments are read or refused; never a traceback."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sparkfleet.errors import InputError, InventoryError
from sparkfleet.model import Host, Value
from sparkfleet.remote import ssh_config
from sparkfleet.remote.host_keys import list_known_hosts_files
from sparkfleet.remote.known_hosts import KeyVerdict, read_known_keys
from sparkfleet.remote.ssh_config import complete_ssh_options
from sparkfleet.remote.ssh_keywords import KEYWORDS
from sparkfleet.remote.ssh_options import parse_ssh_options
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.mutations import NUMBERS, create_chance, encode_text, mutate_text

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIFLzK16ChUFquoMrhQrxY3c1l6A00NpdPHhtP3R73ZMp"
KNOWN = f"""\
@cert-authority 192.168.1.* ssh-ed25519 {KEY} site-ca
@revoked spark-09 ssh-ed25519 {KEY}
spark-*,192.168.1.2?,!spark-07 ssh-ed25519 {KEY} a comment
|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= ssh-ed25519 {KEY}
[192.168.1.40]:2222 ssh-ed25519 {KEY}
"""
CONFIG = """\
Include /dev/null
Host spark-* !spark-07
  HostName 10.0.0.5
  User nvidia
  ProxyJump gate:2200
Match host 10.0.0.5
  IdentityFile ~/.ssh/spark
  UserKnownHostsFile /keys/a "/keys/b c"
"""
MARKS = ["@revoked ", "@cert-authority", "@", "|1|", "|", "*", "?", "!", "[", "]", ",", "=", '"']
LINES = [f"{name} {value}" for name in KEYWORDS for value in ("yes", "none", "a b", "%h", "-1")]
EXEC = re.compile(b"exec", re.IGNORECASE)  # no command is run
NAMES = st.sampled_from(["spark-01", "spark-07", "spark-09", "192.168.1.21", "[192.168.1.40]:2222"])
SETTINGS = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _mutate(number: int, seed: str, tokens: Sequence[str]) -> bytes:
    chance = create_chance(number)
    return encode_text(chance, mutate_text(chance, [seed], tokens))


@pytest.mark.timeout(3600)  # 20,000 examples with --thorough
@given(number=NUMBERS, name=NAMES)
@settings(SETTINGS, max_examples=scale_examples(100, thorough=MANY))
def test_changed_known_hosts_are_read(tmp_path: Path, number: int, name: str) -> None:
    path = tmp_path / "known_hosts"
    path.write_bytes(_mutate(number, KNOWN, MARKS))
    with limit_cpu_time():
        known = read_known_keys([path], name)
    assert known.judge("ssh-ed25519", b"x") in (KeyVerdict.UNKNOWN, KeyVerdict.CHANGED)
    assert all(remark.startswith(f"{path}:") for remark in known.remarks)


@given(number=NUMBERS)
@settings(SETTINGS, max_examples=scale_examples(50))
def test_a_revoked_line_at_the_end_always_counts(tmp_path: Path, number: int) -> None:
    path = tmp_path / "known_hosts"
    line = f"\n@revoked * ssh-ed25519 {KEY}\n"
    text = mutate_text(create_chance(number), [KNOWN], MARKS)
    path.write_text(text + line, encoding="utf-8", errors="surrogatepass")
    known = read_known_keys([path], "spark-01")
    assert {known.judge(kind, key) for kind, key in known.revoked} == {KeyVerdict.REVOKED}


@pytest.mark.timeout(3600)  # 20,000 examples with --thorough
@given(number=NUMBERS)
@settings(SETTINGS, max_examples=scale_examples(20, thorough=MANY))
def test_a_changed_configuration_is_used_or_refused(tmp_path: Path, number: int) -> None:
    path = tmp_path / "config"
    path.write_bytes(EXEC.sub(b"user", _mutate(number, CONFIG, LINES)))
    words = Value(data=f"-F {path}")
    host = Host(name="spark-01", vars={"ansible_ssh_common_args": words})
    ssh_config._query_ssh_config.cache_clear()  # it counts on files that stay as they are
    with limit_cpu_time(), contextlib.suppress(InputError):
        options = complete_ssh_options(parse_ssh_options(host))
        assert options.address
        assert options.port


WORDS = st.one_of(
    st.sampled_from(
        ["-o", "-J", "-i", "-p", "-C", "-F", "-4", "-tt", "-W", "--", "-", "=", "none"]
    ),
    st.sampled_from([f"-o{row.name}=x" for row in KEYWORDS.values()]),
    st.text("abc=-,@:0 '", max_size=8),
)


@pytest.mark.timeout(3600)  # 20,000 examples with --thorough
@given(st.lists(WORDS, max_size=5))
@settings(SETTINGS, max_examples=scale_examples(100, thorough=MANY))
def test_any_arguments_are_read_or_refused(words: list[str]) -> None:
    text = " ".join(words)
    assume(text.count("'") % 2 == 0)  # the inventory refuses quotes that are not closed
    host = Host(name="spark-01", vars={"ansible_ssh_common_args": Value(data=text)})
    with contextlib.suppress(InventoryError):
        assert parse_ssh_options(host).address == "spark-01"


def test_the_seeds_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(KNOWN)
    assert len(read_known_keys([path], "spark-01").accepted) == 1
    assert read_known_keys([path], "spark-09").revoked
    with pytest.raises(InputError):
        complete_ssh_options(
            parse_ssh_options(
                Host(name="a", vars={"ansible_ssh_common_args": Value(data="-o Nonsense=1")})
            )
        )


@pytest.mark.parametrize(
    "line",
    [
        "IdentityFile ~\u00c5/.ssh/spark",
        "IdentityFile ~/" + "a" * 900,
        "IdentityFile %d/" + "a/" * 480,
    ],
    ids=["other letters", "long name", "long path"],
)
def test_a_file_in_a_home_without_a_user_is_not_found(tmp_path: Path, line: str) -> None:
    path = tmp_path / "config"
    path.write_text(line)
    host = Host(name="a", vars={"ansible_ssh_common_args": Value(data=f"-F {path}")})
    options = complete_ssh_options(parse_ssh_options(host))
    assert options.address == "a"
    assert not options.identity_files
    assert not read_known_keys(list_known_hosts_files(options), "a").accepted


@pytest.mark.parametrize("line", [b"User \xe9\xff", b"K\xe9y x"])
def test_a_configuration_that_is_not_utf8_is_used_or_refused(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(line + b"\n")
    host = Host(name="spark-01", vars={"ansible_ssh_common_args": Value(data=f"-F {path}")})
    with contextlib.suppress(InputError):
        assert complete_ssh_options(parse_ssh_options(host)).address == "spark-01"

"""Proxies and certificates of the environment that keep the Hub's client from working are reported.

As reported: modelcontextprotocol/servers#1401 (SOCKS), zylon-ai/private-gpt#1854 and huggingface/
huggingface_hub#3603 (a proxy that is not named), cdeust/Cortex#116 (certificates).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import close_session, constants

from sparkfleet.weights import hub
from sparkfleet.weights.hub import HubError
from tests.weights import isolate

NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    isolate(tmp_path, monkeypatch)
    monkeypatch.setattr(hub, "WAITS", ())
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.example")
    for name in (*NAMES, *map(str.upper, NAMES)):
        monkeypatch.delenv(name, raising=False)
    close_session()
    yield
    close_session()


def refused() -> HubError:
    with pytest.raises(HubError) as caught:
        hub.resolve_manifest("org/model")
    return caught.value


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("all_proxy", "socks5://127.0.0.1:9", "SOCKS"),
        ("https_proxy", "http://proxy.example:3l28", "invalid proxy address"),
        ("SSL_CERT_FILE", "/nowhere.pem", "No such file"),
        ("SSL_CERT_FILE", "/dev/null", "does not work on this machine"),
    ],
)
def test_an_environment_in_which_the_client_cannot_work_is_reported(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(name, value)
    error = refused()
    assert expected in str(error)
    assert "env | grep" in str(error.hint)


@pytest.mark.parametrize("url", ["http://me:secret@127.0.0.1:9", "127.0.0.1:9"])
def test_a_proxy_that_gives_no_answer_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("https_proxy", url)
    assert "through the proxy 127.0.0.1:9" in str(refused())
    assert "secret" not in str(refused())


def test_a_proxy_that_is_not_for_the_hub_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "https://127.0.0.1:9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:8")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert "proxy" not in str(refused())

"""Secrets are masked in bounded time, whatever a host or a log says."""

from __future__ import annotations

import json

import pytest

from sparkfleet.launch.watching.events import MAX_LINE, parse_event
from sparkfleet.page.content import clean_page_text
from sparkfleet.report.identity_redaction import redact_identity
from sparkfleet.report.redaction import redact_assignments, redact_secrets
from tests.budget import limit_cpu_time
from tests.variations import keep_some

SIZE = 200_000  # characters
PARTS = [
    *("a-", "--", "a--", "token", "token ", "token=", "api-key", "TOKEN", "TOKEN_", "://", "://a"),
    *("-----BEGIN ", "-----BEGIN A PRIVATE KEY-----", "bearer ", "hf_", "serial", "serial ", "1."),
    *("a:", "/home/", "GPU-00000000-", '"', "=", "\n", " ", "0"),
    *("key=[ ", "key='", "key=' ", "https://a/", "https://a.", "https://hook.", "eyJaaaaaaaaaaaa."),
    *("cookie: ", '"--key", ', "key: |\n ", "\\", "key\\", 'key="\\', "_pass", "key:\n- "),
    *("name: key value: ", "key, value"),
    *("curl -u ", "curl -u a:", "docker login ", "<token>", "<token a", "('key', ", "('key','"),
    *("%3a%2f%2f", "%25", "-----END PRIVATE KEY", "A\n", "machine a login b ", "set -x token "),
    *("proxy ", "proxy=a:", "&quot;", "\\u0022", "?sig=", "auth: A", "authorization: basic "),
    *('"key=a', "key: |\n a\n ", "sshpass -p ", "://a@", 'password "a\n', "key=$'", "_auth="),
]


@pytest.mark.parametrize("part", keep_some(PARTS, 12), ids=[ascii(part) for part in PARTS])
def test_a_long_text_is_masked_in_bounded_time(part: str) -> None:
    text = part * (SIZE // len(part))
    with limit_cpu_time():
        redact_identity(text, {"ann"})
        redact_assignments(text)
        clean_page_text(text)


def test_lines_of_events_of_a_lying_head_are_read_in_bounded_time() -> None:
    long = "a-" * (MAX_LINE // 2 - 200)
    line = json.dumps({"kind": "stopped", "at": 5.0, "text": long})
    with limit_cpu_time():
        assert all(parse_event(line) for _ in range(50))


@pytest.mark.parametrize(
    "text",
    [
        "MY-HF_TOKEN=hunter2hunter2",
        "x.api-key: hunter2hunter2",
        "'VLLM_API_KEY': 'hunter2hunter2'",
        "serve --api-key hunter2hunter2",
        "(--hf-token hunter2hunter2)",
        "a=b;password=hunter2hunter2;c=d",
        "TOKEN=x TOKEN=hunter2hunter2",
    ],
)
def test_a_secret_is_still_masked(text: str) -> None:
    assert "hunter2" not in redact_secrets(text)

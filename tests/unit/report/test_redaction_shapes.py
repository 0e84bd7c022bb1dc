"""Secrets are masked in each form in which programs write a name with its value."""

from __future__ import annotations

import pytest

from sparkfleet.report.redaction import redact_secrets

WORD = "hunter2-Hunter2"
HOOK = "https://hooks.slack.com/services/T00/B00"
SHAPES = {
    "vLLM's list of arguments": f"non-default args: {{'api_key': ['{WORD}'], 'port': 8000}}",
    "words in JSON": f'["vllm", "serve", "--api-key", "{WORD}", "--port"]',
    "words in Python": f"['vllm', 'serve', '--api-key', '{WORD}']",
    "JSON in JSON": rf'{{"log": "{{\"api_key\": \"{WORD}\"}}"}}',
    "JSON in JSON in JSON": rf"\\\"api_key\\\": \\\"{WORD}\\\"",
    "several words": f'password: "horse {WORD} staple"',
    "comma in quotes": f"token: 'aa,{WORD}'",
    "semicolon in quotes": f'HF_TOKEN="aa;{WORD}"',
    "quote in quotes": rf'password: "aa\"{WORD}"',
    "block of YAML": f"api_key: >-\n  {WORD}",
    "list of YAML": f"api_keys:\n  - first\n  - {WORD}\n",
    "list of JSON": f'{{"api_keys": ["first", "{WORD}"]}}',
    "arrow": f"api_key => {WORD}",
    "escaped": rf"HF_TOKEN\u003d{WORD}",
    "percent": f"https://a/?token%3D{WORD}",
    "name and value": f'{{"name": "HF_TOKEN", "value": "{WORD}"}}',
    "name and value in YAML": f"- name: HF_TOKEN\n  value: {WORD}",
    "value with a dash": f"--api-key -{WORD}",
    "quoted option": f'--api-key "a b {WORD}"',
    "become": f"ansible_become_pass: {WORD}",
    "database": f"DB_PASS={WORD}",
    "passphrase": f"ssh_passphrase: {WORD}",
    "Slack": f"posting to {HOOK}/{WORD}",
    "Discord": f"https://discord.com/api/webhooks/1/{WORD}",
    "Mattermost": f"https://chat.example.com/hooks/{WORD}",
    "GitHub": f"github_pat_11ABCDEFG0{WORD}",
    "Slack's app": f"xapp-1-A0-{WORD}",
    "JSON Web Token": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{WORD}",
    "cookie": f"Set-Cookie: session={WORD}; Path=/",
    "PGP": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{WORD}\n-----END PGP PRIVATE KEY BLOCK-----",
    "Docker's file": f'"auths": {{"a": {{"auth": "{WORD}"}}}}',
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_a_secret_is_masked_in_each_form(text: str) -> None:
    shown = redact_secrets(text)
    assert WORD not in shown
    assert redact_secrets(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=512, prompt_tokens=5",
        "forward pass: 3",
        "num_key_value_heads=8",
        "keys: ['a', 'b']",
        "['eos_token', 'bos_token']",
        "--kv-cache-dtype fp8",
        "key (a) b",
        "see https://docs.vllm.ai/en/latest/usage/security.html",
        '{"name": "max_num_seqs", "value": 8}',
    ],
)
def test_other_settings_and_words_stay(text: str) -> None:
    assert redact_secrets(text) == text

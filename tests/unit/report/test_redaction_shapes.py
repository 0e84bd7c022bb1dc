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
    "curl": f"curl -u user:{WORD} https://x",
    "curl's words": f'["curl", "--user", "me:{WORD}"]',
    "header": f'-H "Authorization: Bearer {WORD}"',
    "tuple": f"('HF_TOKEN', '{WORD}')",
    "tuple of bytes": f"(b'x-api-key', b'{WORD}')",
    "XML": f"<token>{WORD}</token>",
    "XML with attributes": f'<ApiKey kind="a">{WORD}</ApiKey>',
    "XML attributes": f'<add key="ApiToken" value="{WORD}"/>',
    "full width": f"HF_TOKEN\uff1d{WORD}",
    "full-width colon": f"password\uff1a{WORD}",
    "percent twice": f"token%253D{WORD}",
    "percent colon": f"password%3A{WORD}",
    "encoded URL": f"https%3A%2F%2Fuser%3A{WORD}%40host%2Fx",
    "HTML": f"&quot;api_key&quot;: &quot;{WORD}&quot;",
    "escaped quotes": rf"{{\u0022api_key\u0022: \u0022{WORD}\u0022}}",
    "at sign in a URL": f"https://user:p@{WORD}@host/x",
    "proxy without scheme": f"HTTPS_PROXY=me:{WORD}@192.168.0.1:3128",
    "docker inspect": f'"Env": ["HF_TOKEN=a {WORD}", "A=b"]',
    "set -x": f"+ export 'HF_TOKEN=a {WORD}'",
    "quotes of bash": f"TOKEN=$'a {WORD}'",
    "fish": f"set -gx HF_TOKEN {WORD}",
    "csh": f"setenv HF_TOKEN {WORD}",
    "environ": f"A=b\0HF_TOKEN={WORD}\0PATH=/bin",
    "netrc": f"machine h\n  login me\n  password {WORD}\n",
    "netrc default": f"default login a password {WORD}",
    "npmrc": f"//registry/:_auth={WORD}",
    "docker login": f"docker login -u me -p {WORD} registry",
    "sshpass": f"sshpass -p {WORD} ssh host",
    "quoted password": f'password "{WORD}"',
    "MySQL": f"MYSQL_PWD={WORD}",
    "signed URL": f"https://b/x?X-Amz-Signature={WORD}&a=1",
    "SAS": f"https://b/x?sv=1&sig={WORD}",
    "long block of YAML": f"key: |\n  abc\n  {WORD}\nother: 5",
    "ssh key": f"-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n{WORD}\n-----END OPENSSH",
    "key in a log": f"1 | -----BEGIN PRIVATE KEY-----\n1 | {WORD}\n1 | -----END PRIVATE KEY-----",
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
        "tokenizer='Qwen/Qwen3'",
        "sha256:" + 64 * "a",
        "00:11:22:33:44:55 fe80:0000:0000:0000:526b:4bff:fe12:3456",
        "docker run -u 1000:1000 --user root:root image",
        "rsync -u host:/a b",
        "('eos_token', 'bos_token')",
        "Unexpected token '<', \"<html\"",
        "key 'abc' not found",
        "PWD=/home/x OLDPWD=/x",
        "see a@example.com; http://a:80/?b=c",
        "auth: authentication",
        "<key>CFBundleName</key>",
        "proxy host:80",
        "ssh login as ann -port",
        "curl -s https://192.168.0.1:8000/v1/models",
        "default login shell is /bin/bash",
        "abc\n-----END CERTIFICATE-----",
    ],
)
def test_other_settings_and_words_stay(text: str) -> None:
    assert redact_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("authorization: basic dTpw", "authorization: basic (secret)"),
        ("auth: dXNlcjpodW50ZXIy", "auth: (secret)"),
        ("AKIAIOSFODNN7EXAMPLE", "(secret)"),
        (
            "a log\nQUJD\nQUJDQQ==\n-----END PRIVATE KEY-----",
            "a log\n(secret)\n-----END PRIVATE KEY-----",
        ),
    ],
    ids=["short Basic", "Base64 of a password", "AWS", "end of a key"],
)
def test_a_secret_without_a_name_is_known_by_its_form(text: str, shown: str) -> None:
    assert redact_secrets(text) == shown
    assert redact_secrets(shown) == shown

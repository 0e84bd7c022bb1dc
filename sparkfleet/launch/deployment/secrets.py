"""Secrets in the environment of the ranks: read on this machine, masked in all output.

They are written to `nccl.env` on each host, mode 0600, and nowhere else: never to a command line,
log, diff or exception.
"""

from __future__ import annotations

import re
from typing import Any

from sparkfleet.errors import InventoryError
from sparkfleet.inventory import secret_files
from sparkfleet.recipes.settings import Settings
from sparkfleet.report.visible import escape_line
from sparkfleet.resources import expand_home
from sparkfleet.variables.secret import FROM_FILE, VEIL, is_file, is_secret

MARK = "; a secret"  # at the end of a variable's reason
_EXPORT = re.compile(
    r"""^(?P<why>\#\ [^\n]*\n)?export\ (?P<name>\w+)=
    (?P<value>(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])*)$""",
    re.MULTILINE | re.VERBOSE,
)


def resolve_secret(settings: Settings, name: str, value: Any) -> Any:
    """Return the value of `name` in `vllm_env`; ``{from_file: PATH}`` is read on this machine.

    Raises InventoryError for a file that cannot be read, and for an empty secret: an empty API key
    would leave the endpoint open to everyone.
    """
    where = settings.origin("vllm_env", name)
    secret = value
    if is_file(value):
        secret = secret_files.read_secret_file(
            expand_home(value[FROM_FILE]),
            subject=f"vllm_env: {name}",
            where=where,
            hint="the file must be on this machine and hold only the secret",
        )
    if secret == "" and is_secret(name, value):
        raise InventoryError(
            f"vllm_env: {name} is empty", where=where, hint="set a value, or null to unset it"
        )
    return secret


def explain_env_variable(settings: Settings, name: str) -> str:
    """Return the reason for a variable of `vllm_env`, marked if it is a secret."""
    text = escape_line(f"vllm_env, set at {settings.origin('vllm_env', name)}")
    return text + MARK if is_secret(name, settings.written("vllm_env", name)) else text


def mask_secrets(text: str | None) -> str | None:
    """Return a rendered file with its secrets masked."""
    return None if text is None else _EXPORT.sub(_mask_export, text)


def _mask_export(match: re.Match[str]) -> str:
    why = match["why"] or ""
    if not (is_secret(match["name"]) or why.rstrip("\n").endswith(MARK)):
        return match[0]
    return f"{why}export {match['name']}={VEIL}"

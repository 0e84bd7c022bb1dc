"""A recipe of a registry with a mod, and git as its author runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

RECIPE = """\
recipe_version: "1"
name: small
container: vllm-node
mods: [mods/fix]
defaults: {port: 8000, max_model_len: 4096}
command: |
  vllm serve org/Small --port {port} --max-model-len {max_model_len}
"""
AUTHOR = ("-c", "user.name=tester", "-c", "user.email=tester@example.invalid")


def run_git(folder: Path, *words: str) -> str:
    """Run git in `folder`; return what it prints."""
    done = subprocess.run(
        ["git", *AUTHOR, "-C", str(folder), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()

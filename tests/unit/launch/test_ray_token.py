"""The ranks let Ray admit only processes with the token of their deployment."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sparkfleet.templating import render_template

ASKED = 'set -eu; . "$1"; echo "${RAY_AUTH_MODE-none} ${RAY_AUTH_TOKEN_PATH-none}"'


def _source(folder: Path, token_file: str) -> str:
    """Return what a shell that read the environment of a rank would give to Ray."""
    variables = {
        "host": "spark-01",
        "rank": 0,
        "cluster": "default",
        "environment": (),
        "ray_token_file": token_file,
    }
    script = folder / "nccl.env"
    script.write_text(render_template("nccl.env.j2", variables))
    command = ["bash", "-c", ASKED, "rank", str(script)]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}
    ).stdout.strip()


@pytest.mark.parametrize("name", ["ray-token", "a token's file"])
def test_a_rank_has_the_token_that_was_written(tmp_path: Path, name: str) -> None:
    token = tmp_path / name
    assert _source(tmp_path, str(token)) == "none none"
    token.write_text("x")
    assert _source(tmp_path, str(token)) == f"token {token}"


def test_a_rank_without_ray_has_none(tmp_path: Path) -> None:
    assert _source(tmp_path, "") == "none none"

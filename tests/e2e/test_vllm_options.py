"""Options read from vLLM's source against those that vLLM itself lists, with the lab's engine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.lab.engine import install
from sparkfleet.vllm.releases import load_release_table

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROBE = Path(__file__).parents[2] / "sparkfleet" / "onhost" / "deployment" / "probe.py"
ASK = """
import json
from vllm import envs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

words = [w for a in make_arg_parser(FlexibleArgumentParser())._actions for w in a.option_strings]
print(json.dumps({"options": words, "variables": list(envs.environment_variables)}))
"""


def _run(*words: str | Path) -> dict[str, Any]:
    python = install.venv_path() / "bin/python"
    done = subprocess.run([python, *words], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_source_has_the_same_as_vllm_itself() -> None:
    install.install_engine(print)
    read = _run(PROBE)
    told = _run("-c", ASK)
    options = {word.removeprefix("--") for word in told["options"] if word.startswith("--")}
    negated = {name for name in options if name.removeprefix("no-") in options - {name}}
    assert set(read["options"]) == options - negated
    assert set(read["variables"]) == {n for n in told["variables"] if n.startswith("VLLM_")}
    release = read["packages"]["vllm"]
    assert load_release_table("options").names(release) == set(read["options"])
    assert load_release_table("variables").names(release) == set(read["variables"])

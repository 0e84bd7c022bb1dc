"""Options read from vLLM's source against those that vLLM itself lists, with the lab's engine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.lab.engine import install
from sparkfleet.lab.engine.kinds import CPU
from sparkfleet.vllm.option_types import load_option_types
from sparkfleet.vllm.releases import load_release_table

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROBE = Path(__file__).parents[2] / "sparkfleet" / "onhost" / "deployment" / "probe.py"
ASK = """
import json
from vllm import envs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

def takes(action, text):
    try:
        action.type(text)
    except Exception:  # whatever a converter of vLLM raises is a refusal
        return False
    return True

actions = make_arg_parser(FlexibleArgumentParser())._actions
words = [w for a in actions for w in a.option_strings]
typed = [a for a in actions if a.type and not a.nargs and not a.choices]
answer = {"options": words, "variables": list(envs.environment_variables)}
answer["choices"] = {w: [str(c) for c in a.choices if c is not None]
                     for a in actions if a.choices for w in a.option_strings}
answer["takes"] = {w: [text for text in TEXTS if takes(a, text)]
                   for a in typed for w in a.option_strings}
answer["flags"] = [a.option_strings[0] for a in actions if a.nargs == 0 and a.dest != "help"]
print(json.dumps(answer))
"""


TEXTS = ("1", "1.5", "64K", '{"x": 1}', "{x: 1}", "x")
TAKEN = {  # by type, what vLLM converts
    "int": {"1"},
    "size": {"1", "64K"},
    "number": {"1", "1.5"},
    "json-or-text": {*TEXTS} - {"{x: 1}"},
}


def _run(*words: str | Path) -> dict[str, Any]:
    python = CPU.venv_path() / "bin/python"
    done = subprocess.run([python, *words], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.thorough
def test_the_source_has_the_same_as_vllm_itself() -> None:
    install.install_engine(print)
    read = _run(PROBE)
    result = _run("-c", f"TEXTS = {TEXTS}\n{ASK}")
    options = {word.removeprefix("--") for word in result["options"] if word.startswith("--")}
    negated = {name for name in options if name.removeprefix("no-") in options - {name}}
    assert set(read["options"]) == options - negated
    assert set(read["variables"]) == {n for n in result["variables"] if n.startswith("VLLM_")}
    release = read["packages"]["vllm"]
    assert load_release_table("options").names(release) == set(read["options"])
    assert load_release_table("variables").names(release) == set(read["variables"])
    _compare_types(read, result)


def _compare_types(read: dict[str, Any], result: dict[str, Any]) -> None:
    """Compare the types that were read with the conversions that vLLM's own parser makes."""
    flags = {name for name, kind in read["types"].items() if kind == "flag"}
    assert flags == {word.removeprefix("--") for word in result["flags"]}
    for name, kind in read["types"].items():
        if name in flags:
            continue
        taken = set(result["takes"][f"--{name}"])
        assert taken == TAKEN[kind] if kind in TAKEN else not taken & {"{x: 1}", "x"}, name
    for name, values in read["values"].items():
        assert set(result["choices"].get(f"--{name}", ())) <= set(values), name
    table = load_option_types()
    assert table.types == read["types"]
    assert all(set(values) == set(read["values"][name]) for name, values in table.values.items())

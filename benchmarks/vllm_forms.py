"""Print the table of how many values each option of an installed vLLM takes.

    VENV/bin/python benchmarks/vllm_forms.py >sparkfleet/vllm/tables/forms.txt

runs in the environment of vLLM and asks its parser. `tests/e2e/test_vllm_parser.py` compares the
table with the lab's engine. The other tables are written by `benchmarks/vllm_tables.py`.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version

from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

HEADER = """\
# How many values each option takes: 0, 1, ? (none or one) or + (one or more); "optional" where vLLM
# reads "" and None as no value, "only-true" for a flag that has no --no- form, "json-list" where
# the value is a list in JSON.
# From vLLM's own parser; written by benchmarks/vllm_forms.py.
release {release}
"""
COUNTS = {None: "1", 0: "0"}  # argparse's nargs


def describe_option(action: argparse.Action) -> str:
    """Return the count of an option's values, and what else is known of them."""
    kind = getattr(action.type, "__qualname__", "")
    marks = {
        "optional": "_optional_type" in kind and action.nargs is None,
        "only-true": isinstance(action, argparse._StoreTrueAction),
        "json-list": kind == "loads" and isinstance(action.default, list),
    }
    return " ".join([COUNTS.get(action.nargs, str(action.nargs)), *filter(marks.get, marks)])


def main() -> None:
    """Print the table."""
    print(HEADER.format(release=version("vllm").partition("+")[0]), end="")
    rows = {
        f"{word[2:]} {describe_option(action)}"
        for action in make_arg_parser(FlexibleArgumentParser())._actions
        if action.dest not in ("help", "model_tag")
        for word in action.option_strings
        if word.startswith("--") and not (word.startswith("--no-") and action.nargs == 0)
    }
    print("\n".join(sorted(rows)))


if __name__ == "__main__":
    main()

"""All fuzzers under one command: ``python -m tests.fuzz``, with ``--thorough`` for the long form.

They are properties of the unit tests, so the gate runs each of them with the same few examples
every time; ``--thorough`` tries new and many more ones, which `--seed` chooses.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from tests.budget import MANY, MAX_EXAMPLES

FUZZERS: Mapping[str, tuple[str, ...]] = {
    "inventories": (
        "inventory/test_inventory_mutations.py::test_a_mutated_inventory_is_read_or_refused",
    ),
    "recipes": (
        "recipes/test_recipe_mutations.py::test_wild_values_are_judged_or_refused",
        "recipes/test_recipe_mutations.py::test_a_mutated_recipe_is_judged_or_refused",
        "recipes/test_recipe_mutations.py::test_a_mutated_recipe_of_others_is_judged_or_refused",
    ),
    "playbooks": (
        "playbook/test_playbook_mutations.py::test_a_mutated_playbook_is_read_or_refused",
    ),
    "templates": ("house/test_templating.py::test_any_text_is_rendered_or_refused",),
    "values in scripts": ("launch/test_hostile_values.py::test_no_text_leaves_its_place",),
    "facts": (
        "facts/test_facts_tolerance.py::test_any_text_in_any_source_parses",
        "facts/test_facts_tolerance.py::test_any_source_that_was_cut_short_parses",
        "facts/test_facts_tolerance.py::test_changed_sources_are_read_or_name_their_host",
    ),
    "host answers": (
        "remote/test_answers.py::test_an_answer_of_another_shape_names_its_host",
        "remote/test_answer_mutations.py::test_a_changed_answer_is_read_or_names_its_host",
        "links/test_link_sessions.py::test_each_part_of_an_answer_is_checked",
    ),
    "host frames": (
        "remote/test_frame_mutations.py::test_changed_frames_are_read_or_end_the_channel",
    ),
    "Hub answers": (
        "weights/test_hub_answers.py::test_no_answer_leads_to_another_place",
        "weights/test_hub_answer_mutations.py::test_a_changed_answer_of_the_hub_is_read_or_refused",
    ),
    "ssh_config": (
        "remote/test_ssh_mutations.py::test_a_changed_configuration_is_used_or_refused",
    ),
    "known_hosts": ("remote/test_ssh_mutations.py::test_changed_known_hosts_are_read",),
    "safetensors": (
        "weights/test_deep_files.py::test_any_header_has_a_verdict",
        "weights/test_deep_files.py::test_a_changed_header_has_a_verdict",
    ),
    "config.json": ("fit/test_fit_mutations.py::test_a_changed_config_is_answered_or_refused",),
    "logs": (
        "doctor/test_log_mutations.py::test_a_changed_log_is_diagnosed",
        "doctor/test_log_mutations.py::test_a_strange_log_is_diagnosed",
    ),
}


EXAMPLES = re.compile(r"(\d+) passing, ")  # of each property, as hypothesis reports it


def main() -> None:
    """Run them one after the other and print a table; exit with 1 where one found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--thorough", action="store_true", help="many more examples of each")
    parser.add_argument("--seed", type=int, default=1, help="of the examples of --thorough")
    parser.add_argument(
        "--examples", type=int, default=MANY, help=f"at most so many with --thorough: {MANY:,}"
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help=", ".join(FUZZERS))
    options = parser.parse_args()
    if unknown := set(options.inputs) - set(FUZZERS):
        parser.error(f"no such input: {', '.join(sorted(unknown))}")
    extra = ["--thorough", f"--hypothesis-seed={options.seed}"] if options.thorough else []
    os.environ[MAX_EXAMPLES] = str(options.examples)
    failed = 0
    sys.stdout.write("| input | examples | s | result |\n|---|---|---|---|\n")
    for name in options.inputs or FUZZERS:
        began = time.monotonic()
        done = _run_tests(FUZZERS[name], extra)
        failed += done.returncode != 0
        seconds = time.monotonic() - began
        result = "FAILED" if done.returncode else "passed"
        examples = sum(map(int, EXAMPLES.findall(done.stdout))) or ""
        sys.stdout.write(f"| {name} | {examples} | {seconds:.0f} | {result} |\n")
        if done.returncode:
            sys.stdout.write(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
        sys.stdout.flush()
    sys.exit(failed > 0)


def _run_tests(tests: Sequence[str], extra: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=0"]
    command += ["--hypothesis-show-statistics", *extra, *(f"tests/unit/{test}" for test in tests)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    main()

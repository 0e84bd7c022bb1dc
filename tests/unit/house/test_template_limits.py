"""Templates, expressions and files that would take all time or memory are refused."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from sparkfleet.doctor.logs import load_log_bundle
from sparkfleet.errors import InputError, InventoryError, Problem, SparkfleetError, UsageError
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.inventory.patterns import select_hosts
from sparkfleet.regular_expressions import SlowExpressionError, match_texts, replace_matches
from sparkfleet.templating import render_file, render_value
from sparkfleet.yaml.source import read_source_file
from tests.variations import keep_some

DOUBLED = "{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = "
GREEDY = {
    "padding": "{{ 'a' | center(10 ** 9) }}",
    "padding in a method": "{{ 'a'.ljust(10 ** 9) }}",
    "padding by name": "{{ ['a'] | map('center', 10 ** 9) | list }}",
    "indentation": "{{ 'a\nb' | indent(10 ** 9) }}",
    "batch": "{{ [1] | batch(10 ** 9, 'x') | list }}",
    "slice": "{{ [1] | slice(10 ** 9) | list }}",
    "repeated text": "{{ 'a' * 10 ** 10 }}",
    "repeated list": "{{ [1] * 10 ** 10 }}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "product": "{% set ns = namespace(x=9) %}{% for i in range(90) %}{% set ns.x = ns.x * ns.x %}"
    "{% endfor %}{{ ns.x }}",
    "format": "{{ '%1000000000d' % 1 }}",
    "format with a star": "{{ '%*d' | format(1000000000, 1) }}",
    "format method": "{{ '{:1000000000}'.format(1) }}",
    "format in a format": "{{ '{:{}}'.format(1, 1000000000) }}",
    "replaced": "{{ ('a' * 9999) | replace('a', 'b' * 9999) }}",
    "replaced in a method": "{{ ('a' * 9999).replace('a', 'b' * 9999) }}",
    "replaced by an expression": "{{ ('a' * 9999) | regex_replace('a', 'b' * 9999) }}",
    "joined": "{{ range(100000) | join('x' * 9999) }}",
    "translated": "{{ ('a' * 9999).translate({97: 'b' * 9999}) }}",
    "doubled lists": DOUBLED + "[ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "doubled sums": DOUBLED + "ns.x + ns.x %}{% endfor %}{{ ns.x }}",
    "doubled text": DOUBLED + "ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "long output": "{% for a in range(99999) %}{{ 'b' * 9999 }}{% endfor %}",
    "long block": "{% set x %}{% for a in range(99999) %}{{ 'b' * 9999 }}{% endfor %}{% endset %}",
    "many texts": "{{ range(99999) | map('string') | map('center', 9999) | list | length }}",
    "macros": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
    "{{ m(60) }}",
    "endless macro": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "slow expression": "{{ ('a' * 40) | regex_replace('(a+)+$', 'b') ~ 'x' }}{{ ('a' * 40 ~ 'x') "
    "| regex_replace('(a+)+$', 'b') }}",
    "sample text": "{{ lipsum(10 ** 6) }}",
}


@pytest.mark.parametrize("text", keep_some(GREEDY.values(), 12), ids=GREEDY)
def test_a_template_that_takes_too_much_is_refused(text: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError):
        render_value(text, {})
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 500_000  # KiB


@pytest.mark.parametrize(
    "name",
    [
        *("padding", "doubled text"),
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in GREEDY
            if name not in ("padding", "doubled text")
        ),
    ],
)
def test_a_file_that_takes_too_much_is_refused_alike(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.j2").write_text(GREEDY[name])
    with pytest.raises(InputError):
        render_file(tmp_path / "t.j2", {})


def test_a_template_of_too_many_steps_is_refused_for_its_steps() -> None:
    with pytest.raises(InputError, match="more than 200,000 steps"):
        render_value(GREEDY["loops"], {})


def test_variables_that_name_each_other_share_one_budget(tmp_path: Path) -> None:
    lines = [f"    v{i}: '{{{{ v{i + 1} ~ v{i + 2} }}}}'" for i in range(40)]
    text = "\n".join(["sparks:", "  hosts: {a: {}}", "  vars:", *lines, "    v40: x", "    v41: x"])
    (tmp_path / "i.yml").write_text(text + "\n    vllm_model: '{{ v0 }}'\n")
    with pytest.raises(InventoryError, match=r"vllm_model cannot be rendered: .* larger than"):
        load_inventory([str(tmp_path / "i.yml")])


@pytest.mark.thorough  # varies the slow host pattern below, which takes 1 s too
@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$"])
def test_a_slow_expression_is_ended(pattern: str) -> None:
    with pytest.raises(SlowExpressionError, match="takes more than 1 s"):
        match_texts(pattern, ["a" * 500 + "b" * 500 + "!"])


def test_an_expression_that_may_be_slow_still_gives_its_result() -> None:
    assert match_texts("(a+)+b", ["aab", "b"]) == [True, False]
    assert replace_matches(r"(\w+)-(\w+)", r"\2-\1", "one-two") == "two-one"


def test_a_slow_host_pattern_is_refused(tmp_path: Path) -> None:
    (tmp_path / "i.yml").write_text(f"sparks: {{hosts: {{{'a' * 40}: {{}}}}}}\n")
    inventory = load_inventory([str(tmp_path / "i.yml")])
    with pytest.raises(InventoryError, match="takes more than 1 s"):
        select_hosts(inventory, "~(a+)+b")
    assert [host.name for host in select_hosts(inventory, "~(a+)+$")] == ["a" * 40]


@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
def test_a_pipe_or_device_is_not_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "pipe":
        os.mkfifo(path)
    with pytest.raises(InputError, match="a device, a socket or a named pipe"):
        read_source_file(path)
    with pytest.raises(UsageError, match="a device, a socket or a named pipe"):
        load_log_bundle(path)


def test_what_a_shell_hands_over_as_a_pipe_is_read(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sparkfleet", "inventory.list", "-i"]
    script = '"$@" <(echo "sparks: {hosts: {one: {}}}")'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"one"' in done.stdout


def test_of_very_many_problems_the_first_are_shown() -> None:
    problems = [Problem(message=f"problem {number}") for number in range(134_464)]
    shown = str(SparkfleetError.of(problems)).splitlines()
    assert len(shown) == 101
    assert shown[-1] == "and 134364 more problems"

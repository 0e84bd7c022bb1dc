"""Any playbook text is read, or refused with a reason before a host is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkfleet.actions.run_context import RunOptions
from sparkfleet.errors import InputError, UnreachableError
from sparkfleet.model import Host
from sparkfleet.playbook.assignment import assign_hosts
from sparkfleet.playbook.engine import PlaybookRunner
from sparkfleet.playbook.listing import build_listing, format_listing
from sparkfleet.playbook.parse import load_playbook
from sparkfleet.playbook.selection import Selection, select_tasks
from sparkfleet.remote.connection import Connection
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.mutations import NUMBERS, create_chance, mutate_yaml
from tests.scenes import inventory, scene

ROOT = Path(__file__).parents[3]
EVERYTHING = """
- name: all of it
  hosts: sparks:!spark-02
  become: true
  gather_facts: false
  tags: [a, b]
  vars: {x: "{{ y }}", vllm_port: 8001}
  tasks:
    - {name: "n {{ x }}", command: ls -l, args: {creates: /a}, register: r, until: r.rc == 0}
    - {shell: "a | b", when: [x is defined, nodes > 1], retries: 2, delay: 0.5, run_once: true}
    - block:
        - {copy: {content: "{{ x }}", dest: /d, mode: "0644"}, no_log: true}
        - {template: {src: t.j2, dest: ~/x}, tags: never}
      rescue: [{debug: {msg: [1, {a: b}]}}, {debug: {var: r.stdout}}]
      always: [{file: {path: /x, state: touch}}]
      when: not r is failed
    - {wait_tcp: {port: 80}}
    - {wait_http: {url: "http://x", status: [200, 201]}}
    - {assert: {that: [r.rc == 0], fail_msg: no}}
    - {pause: {seconds: 1}}
    - {set: {a: 1}}
    - start_ray: {role: head}
    - cluster_up:
- hosts: all
  tasks: [{ansible.builtin.command: [ls]}]
"""
SEEDS = [EVERYTHING] * 3 + [
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "playbooks").rglob("*.yml"))
]
EXAMPLES = scale_examples(60, thorough=MANY)
TOKENS = r"""
{{ x }}|{{|}}|{% if|{%|{# |{{ 1/0 }}|{{ hostvars }}|{{ x | nofilter }}|{{ lookup('env','HOME') }}
!vault x|!!set |!unsafe |&a |*a|<<: *a|[|]|{|}|: |- |#|'|"|>|null|~|0|-1|1e999|0x|.inf|.nan|yes|=
block:|rescue:|always:|when:|until:|tags:|args:|become:|loop:|register:|cluster_up:|command:|set:
hosts: nobody|hosts: [a, b]|hosts: {a: b}|tasks: []|tasks: {}|vars: [1]|vars: {1: 2}
when: x ==|when: [a, [b]]|when: {a: b}|retries: -1|retries: 1e99|delay: .nan|tags: {a: b}|name: [1]
command: [1, 2]|command: {}|command: 2026-01-01|copy: x|that: 1|port: 1e5|mode: 0644|999999999999999
"""
TOKEN_LIST = TOKENS.replace("\n", "|").strip("|").split("|")


def _nobody(host: Host) -> Connection:
    raise UnreachableError("is not there", host=host.name)


def _use(path: Path, selection: Selection) -> str:
    """List a playbook, and run it under --check on hosts that do not answer."""
    plays = select_tasks(load_playbook(path), selection)
    options = RunOptions(check=True, tp=2)
    with scene(path.parent, hosts=inventory(), options=options, open_link=_nobody) as made:
        assigned = assign_hosts(plays, made.inventory, made.cluster, limit=None, given={})
        ended = PlaybookRunner(made).run(assigned)
    assert ended.exit_code in (0, 2, 4, 6)
    return "\n".join(format_listing(build_listing(assigned, tasks=True, hosts=True), "x"))


@pytest.mark.timeout(7200)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    NUMBERS,
    st.sampled_from([Selection(), Selection(tags=frozenset({"a"})), Selection(start_at="*")]),
)
def test_a_mutated_playbook_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, number: int, selection: Selection
) -> None:
    path = tmp_path_factory.getbasetemp() / "mutated.yml"
    path.write_bytes(mutate_yaml(create_chance(number), SEEDS, TOKEN_LIST))
    with limit_cpu_time():
        try:
            result = _use(path, selection)
        except InputError as refusal:
            result = str(refusal) if all(problem.message for problem in refusal.problems) else ""
    assert result

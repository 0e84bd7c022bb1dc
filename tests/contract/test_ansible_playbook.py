"""A playbook does here what the pinned ansible-playbook makes of the same file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparkfleet.playbook.selection import Selection, is_selected

pytestmark = pytest.mark.contract

INVENTORY = """
sparks:
  hosts: {spark-01: {color: red}, spark-02: {color: blue}}
  vars: {ansible_connection: local, ansible_python_interpreter: PYTHON}
"""
BOOK = """
- name: first
  hosts: sparks
  gather_facts: false
  vars: {who: "{{ inventory_hostname }}", size: 2}
  tasks:
    - {name: a command, command: echo one two, register: said}
    - name: what it said
      assert:
        that:
          - said.rc == 0 and said.stdout == 'one two' and said.stdout_lines == ['one two']
          - said is changed and said is succeeded and not said is failed
          - said.stderr == '' and said.cmd == ['echo', 'one', 'two']
    - {name: a list, command: {argv: [printf, '%s', "a b; * ü"]}, register: words}
    - {name: it arrived, assert: {that: words.stdout == 'a b; * ü'}}
    - {name: a shell, shell: "printf x | wc -c", register: count}
    - {name: it counted, assert: {that: count.stdout | trim | int == 1}}
    - {name: only red, command: "true", when: color == 'red', register: red}
    - {name: skipped is reported, assert: {that: red is skipped}, when: color == 'blue'}
    - {name: two conditions, command: "true", when: [size == 2, color == 'blue']}
    - {name: made, file: {path: "DIR/{{ who }}/deep", state: directory, mode: "0750"}}
    - {name: made again, file: {path: "DIR/{{ who }}/deep", state: directory, mode: "0750"}}
    - {name: written, copy: {content: "of {{ who }}\\n", dest: "DIR/{{ who }}/f", mode: "0640"}}
    - {name: written again, copy: {content: "of {{ who }}\\n", dest: "DIR/{{ who }}/f"}}
    - {name: permissions, file: {path: "DIR/{{ who }}/f", mode: "0600"}}
    - {name: rendered, template: {src: t.j2, dest: "DIR/{{ who }}/t"}}
    - {name: rendered again, template: {src: t.j2, dest: "DIR/{{ who }}/t"}}
    - {name: touched, file: {path: "DIR/{{ who }}/new", state: touch}}
    - {name: gone, file: {path: "DIR/{{ who }}/new", state: absent}}
    - {name: gone before, file: {path: "DIR/{{ who }}/new", state: absent}}
    - name: not again
      command: touch x
      args: {chdir: "DIR/{{ who }}", creates: "DIR/{{ who }}/f"}
    - {name: pattern, command: {cmd: "true", creates: "DIR/{{ who }}/f*"}}
    - {name: nothing to remove, command: {cmd: "true", removes: "DIR/none"}}
    - {name: once, command: "echo {{ who }}", run_once: true, register: first}
    - {name: all know, assert: {that: first.stdout == 'spark-01'}}
    - name: until
      shell: "echo x >> DIR/{{ who }}/n; wc -l < DIR/{{ who }}/n"
      register: lines
      until: lines.stdout | int >= 2
      delay: 0
    - {name: twice, assert: {that: lines.attempts == 2}}
    - name: hidden
      command: echo secret
      no_log: true
    - name: a block  # that fails on all: on some, Ansible goes on with the others, and we do not
      when: size == 2
      block:
        - {name: in the block, command: "true"}
        - {name: for one, command: "true", when: color == 'red'}
        - {name: breaks, command: "false"}
        - {name: never reached, command: "true"}
      rescue:
        - {name: rescue, command: "true"}
        - {name: why, assert: {that: [ansible_failed_task.name == 'breaks',
                                      ansible_failed_result.rc == 1]}}
      always:
        - {name: always, command: "true"}
    - {name: after, debug: {msg: "{{ who }} {{ hostvars['spark-02'].color }}"}}
    - {name: groups, assert: {that: "groups['sparks'] | length == size"}}
    - {name: own groups, assert: {that: "'sparks' in group_names"}}
- name: second
  hosts: sparks:!spark-01
  gather_facts: false
  tasks:
    - {name: still known, assert: {that: said.stdout == 'one two'}}
    - {name: vars of a play end with it, assert: {that: who is not defined}}
    - {name: fully qualified, ansible.builtin.command: "true"}
"""
WORDS = {"skipping": "skipped", "fatal": "failed"}


def _read_results(output: str) -> list[tuple[str, str, str]]:
    """Return task, host and status of each line that has one, in the order of the tasks."""
    found, task = [], ""
    for line in output.splitlines():
        if heading := re.match(r"TASK \[(.*)\] \*", line):
            task = heading[1]
        elif result := re.match(r"(ok|changed|skipping|skipped|fatal): \[([\w-]+)\]", line):
            found.append((task, result[2], WORDS.get(result[1], result[1])))
    return sorted(found)


def _recap(output: str) -> dict[str, dict[str, int]]:
    rows = re.findall(r"^([\w-]+) +: (ok=.*)$", output, re.MULTILINE)
    return {
        host: {
            name: int(count)
            for name, count in (pair.split("=") for pair in counts.split())
            if name != "ignored"
        }
        for host, counts in rows
    }


def _run(folder: Path, *words: str) -> str:
    """Run a command line over the playbook in a folder of its own, and return its output."""
    folder.mkdir()
    (folder / "hosts.yml").write_text(INVENTORY.replace("PYTHON", sys.executable))
    (folder / "play.yml").write_text(BOOK.replace("DIR", str(folder)))
    (folder / "t.j2").write_text("{{ who }} {{ color }}\n")
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    done = subprocess.run(
        words, cwd=folder, env={**env, "NO_COLOR": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _files(folder: Path) -> dict[str, tuple[str, str]]:
    return {
        str(path.relative_to(folder)): (format(path.stat().st_mode, "o"), path.read_text())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.parent != folder
    }


def test_the_same_tasks_end_the_same_on_every_host(tmp_path: Path) -> None:
    programs = Path(sys.executable).parent
    peer = _run(
        tmp_path / "ansible", str(programs / "ansible-playbook"), "-i", "hosts.yml", "play.yml"
    )
    ours = _run(
        tmp_path / "ours",
        sys.executable, "-m", "sparkfleet", "playbook.run", "play.yml", "--inventory", "hosts.yml",
    )  # fmt: skip
    assert len(_read_results(peer)) > 60
    assert _read_results(ours) == _read_results(peer)
    assert _recap(ours) == _recap(peer)
    assert _files(tmp_path / "ours") == _files(tmp_path / "ansible")


TAGS = ("a", "b", "always", "never")
ASKED = ("a", "all", "always", "never", "tagged", "untagged")


def _sets(names: tuple[str, ...], most: int) -> Iterator[frozenset[str]]:
    for size in range(most + 1):
        yield from (frozenset(chosen) for chosen in combinations(names, size))


@pytest.fixture(scope="module")
def peer() -> object:
    taggable = pytest.importorskip("ansible.playbook.taggable")
    return taggable.Taggable


def _evaluate(peer: object, tags: frozenset[str], selection: Selection) -> bool:
    task = SimpleNamespace(
        tags=list(tags),
        untagged=frozenset(["untagged"]),
        _loader=None,
        _get_all_taggable_objects=list,
    )
    only = selection.tags or frozenset(["all"])  # the default of ansible-playbook
    runs: bool = peer.evaluate_tags(task, only, selection.skip_tags, {})  # type: ignore[attr-defined]  # Ansible's
    return runs


@pytest.mark.parametrize("tags", list(_sets(TAGS, 3)), ids=lambda tags: "+".join(sorted(tags)))
def test_a_task_runs_for_the_tags_for_which_ansible_runs_it(
    peer: object, tags: frozenset[str]
) -> None:
    differ: Mapping[str, bool] = {
        f"--tags {sorted(only)} --skip-tags {sorted(skip)}": is_selected(tags, selection)
        for only in _sets(ASKED, 2)
        for skip in _sets(ASKED, 2)
        if is_selected(tags, selection := Selection(tags=only, skip_tags=skip))
        != _evaluate(peer, tags, selection)
    }
    assert differ == {}

"""Every command line that the documents print is one that works as typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from invoke.parser import Parser

from sparkfleet.cli.options import Options, parse_options
from sparkfleet.cli.playbook import prepare_run
from sparkfleet.cli.tasks import namespace
from sparkfleet.inventory.loading import load_inventory
from tests.commandline import run_command
from tests.scenes import inventory, play
from tests.variations import keep_some

ROOT = Path(__file__).parents[3]
PARSER = Parser(contexts=namespace.to_contexts())
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHIPPED = sorted(path for path in (ROOT / "inventories").glob("*.yml") if path.stem != "lab")
STARTS = ("cluster.up", "cluster.switch", "cluster.drift", "cluster.down", "hosts.prepare")


def _list_commands(document: Path) -> list[str]:
    """Return the command lines of the blocks of a document, without their comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", document.read_text(), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    typed = re.compile(r"^\s*(?:sudo )?(?:invoke|sparkfleet) (\w+\.\w+.*)$")
    matches = filter(None, map(typed.match, lines))
    return [match[1].partition(" #")[0].partition(" >")[0].strip() for match in matches]


COMMANDS = sorted({line for document in DOCUMENTS for line in _list_commands(document)})


def _parse(line: str) -> tuple[str, dict[str, object]]:
    """Return the task and what invoke hands over; raises ParseError."""
    (context,) = PARSER.parse_argv(shlex.split(line))
    return str(context.name), context.as_kwargs


def test_the_documents_have_commands() -> None:
    assert len(COMMANDS) > 30
    assert "cluster.up --tp 2 --check --diff" in COMMANDS


@pytest.mark.parametrize("line", COMMANDS)
def test_a_documented_command_is_one_that_is_understood(line: str) -> None:
    name, _ = _parse(line)
    assert name in namespace.task_names


@pytest.mark.parametrize("path", keep_some(SHIPPED, 2), ids=lambda path: path.stem)
@pytest.mark.parametrize("line", [line for line in COMMANDS if line.split()[0] in STARTS])
def test_a_documented_command_works_with_each_inventory_that_is_large_enough(
    line: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    task, typed = _parse(line)
    shared = [option for option in namespace[task].options if option.field in Options.__slots__]
    names = {option.name for option in shared}
    given = {name: value for name, value in typed.items() if name.replace("_", "-") in names}
    options = parse_options(Options, task, {**given, "inventory": [str(path)]})
    hosts = load_inventory([str(path)]).groups["sparks"].hosts
    wanted = options.limit.split(",") if options.limit else []
    if options.nodes > len(hosts) or not set(wanted) <= set(hosts):
        pytest.skip("the inventory has fewer hosts, or others")
    playbook = {"cluster.switch": "cluster-up"}.get(task, task.replace(".", "-"))
    prepare_run.prepare_run(prepare_run.find_playbook(playbook), options)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_inventory_serves_with_docker_and_a_recipe_of_its_own(path: Path) -> None:
    head = next(iter(load_inventory([str(path)]).hosts.values()))
    assert head.get("vllm_recipe") == "gpt-oss-20b"
    assert not head.vars.keys() & {"engine", "engine_venv", "link_interfaces", "link_mtu"}


@pytest.mark.parametrize(
    ("variables", "kind"),
    [
        ({}, "docker"),
        ({"engine_venv": "~/v"}, "native"),
        ({"engine": "podman", "engine_venv": "~/v"}, "podman"),
    ],
)
def test_a_playbook_knows_the_engine_that_is_used(
    tmp_path: Path, variables: dict[str, str], kind: str
) -> None:
    tasks = "- name: it\n  debug: {msg: '{{ engine }}'}\n"
    _, record = play(tmp_path, tasks, hosts=inventory(("one",), **variables))
    assert record.outcomes("it")["one"].message == kind


@pytest.mark.parametrize("path", keep_some(SHIPPED, 1), ids=lambda path: path.stem)
def test_hosts_prepare_resolves_with_each_shipped_inventory(path: Path, tmp_path: Path) -> None:
    local = tmp_path / "here.yml"
    names = ", ".join(f"{name}: " for name in load_inventory([str(path)]).hosts)
    local.write_text(f"sparks: {{hosts: {{{names}}}, vars: {{ansible_connection: local}}}}\n")
    done = run_command("hosts.prepare", "-i", str(path), "-i", str(local), cwd=tmp_path)
    assert "is undefined" not in done.stdout + done.stderr
    assert "usermod -aG docker" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", ["chat-template", "chat-template.yml", "playbooks/examples/chat-template.yml"]
)
def test_an_example_is_found_by_its_name_anywhere(name: str, tmp_path: Path) -> None:
    (tmp_path / "i.yml").write_text("sparks: {hosts: {one: {ansible_host: 192.0.2.1}}}\n")
    words = ["--list-tasks", "-i", "i.yml", "--recipe", "gpt-oss-20b"]
    done = run_command("playbook.run", name, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Stage the chat template" in done.stdout

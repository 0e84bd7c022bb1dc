"""The command line: which files it takes, what it says to wrong input, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkfleet import __version__
from sparkfleet.cli import command, defaults
from sparkfleet.cli.options import Options, parse_options
from sparkfleet.cli.tasks import namespace
from sparkfleet.errors import GateError, UnreachableError, UsageError
from sparkfleet.model import Host, Value
from sparkfleet.remote.pool import Answers
from tests.commandline import run_command

CHECKOUT = Path(__file__).parents[3]
PAIR = str(CHECKOUT / "inventories" / "pair.yml")
TYPE_TP = "type: --tp 2"
LISTED = "to list the recipes: sparkfleet recipes.list"
LAB_TASKS = ", ".join(sorted(name for name in namespace.task_names if "lab" in name))
MINIMAL = "sparks: {hosts: {one: {ansible_host: 127.0.0.1}}}\n"

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Type a command line in an empty folder."""
    monkeypatch.delenv("SPARKFLEET_INVENTORY", raising=False)

    def type_it(*words: str, door: str = "sparkfleet") -> Any:
        root = ("--search-root", str(CHECKOUT)) if door == "invoke" else ()
        return run_command(*root, *words, cwd=tmp_path, door=door)

    return type_it


def test_the_version_is_shown(call: Call) -> None:
    assert call("--version").stdout == f"sparkfleet {__version__}\n"


def test_both_doors_have_the_same_tasks(call: Call) -> None:
    ours = call("--list").stdout
    assert ours.startswith("Available tasks:")
    assert "cluster.up" in ours
    assert call("--list", door="invoke").stdout == ours


@pytest.mark.parametrize(
    "words",
    [
        ["cluster.upp"],
        ["cluster.up", "--tp"],
        ["cluster.up", "--tp", "two"],
        ["cluster.switch", "--help"],
        ["recipes.show", "nope"],
        ["recipes.list", "--output", "json"],
        ["--dry", "cluster.up"],
    ],
)
def test_both_doors_say_the_same_and_end_alike(call: Call, words: list[str]) -> None:
    ours, theirs = call(*words), call(*words, door="invoke")
    assert theirs.stdout.replace("invoke ", "sparkfleet ") == ours.stdout
    assert theirs.stderr.replace("invoke ", "sparkfleet ") == ours.stderr
    assert theirs.returncode == ours.returncode


@pytest.mark.parametrize(
    ("words", "expected", "hint"),
    [
        (["hlep"], "task 'hlep' not found", "did you mean 'help'?"),
        (["xyzzy"], "task 'xyzzy' not found", "to list the tasks: sparkfleet --list"),
        (
            ["down"],
            "task 'down' not found",
            "did you mean 'cluster.down' or 'gateway.down' or 'lab.down'?",
        ),
        (
            ["recipes.s"],
            "task 'recipes.s' not found",
            "did you mean 'recipes.show' or 'recipes.suggest'?",
        ),
        (["lab"], "task 'lab' not found", f"tasks: {LAB_TASKS}"),
        (["--lst"], "option '--lst' not found", "did you mean '--list'?"),
        (["--tp", "2", "cluster.up"], "option '--tp' not found", "it comes after cluster.up"),
        (["cluster.up", "--tp"], "--tp needs a value", "type: --tp N"),
        (["cluster.down", "--limit"], "--limit needs a value", "type: --limit HOSTS"),
        (
            ["cluster.up", "--inventory", "--tp", "2"],
            "--inventory needs a value",
            "type: --inventory FILE",
        ),
        (["cluster.up", "--lock-wait"], "--lock-wait needs a value", "type: --lock-wait DURATION"),
        (["cluster.up", "--output"], "--output needs a value", "its values: text, json"),
        (
            ["inventory.host", "a", "--explain"],
            "--explain needs a value",
            "type: --explain VARIABLE",
        ),
        (["cluster.up", "--recipe"], "--recipe needs a value", "type: --recipe RECIPE"),
        (["cluster.up", "--tp", "2", "--tp", "3"], "--tp is given twice", "leave one out"),
        (["cluster.up", "--tp=2", "--tp=3"], "--tp is given twice", "leave one out"),
        (["cluster.up", "--check=yes"], "--check takes no value (got 'yes')", "type: --check"),
        (
            ["cluster.up", "more"],
            "cluster.up: unexpected argument 'more'",
            "see its options: sparkfleet cluster.up --help",
        ),
        (["cluster.up", "--", "more"], "unexpected arguments after --: more", ""),
        (
            ["lab.fault", "x"],
            "lab.fault needs HOST and KIND",
            "type: sparkfleet lab.fault HOST KIND",
        ),
        (
            ["cluster.switch", "--chek", "x"],
            "cluster.switch has no option --chek",
            "did you mean '--check'?",
        ),
        (
            ["weights.prune", "--yess"],
            "weights.prune has no option --yess",
            "did you mean '--yes'?",
        ),
        (
            ["cluster.up", "--extra-vars", "x=1"],
            "cluster.up has no option --extra-vars",
            "Ansible's --extra-vars is --set here",
        ),
        (
            ["--list-format", "x", "--list"],
            "--list-format: expected one of flat, nested, json (got 'x')",
            "",
        ),
        (["recipes.show", "own.yml"], "file 'own.yml' not found", LISTED),
        (["recipes.show", "zzz"], "recipe 'zzz' not found", LISTED),
        (
            ["recipes.show", "gpt-oss"],
            "recipe 'gpt-oss' not found",
            "did you mean 'gpt-oss-120b' or 'gpt-oss-120b-mxfp4' or 'gpt-oss-20b'?",
        ),
        (["recipes.validate", "."], "no recipe in '.'", "name one, or type: all"),
        (["recipes.validate", ","], "no recipe in ','", "name one, or type: all"),
        (
            ["cluster.up", "--tp", "9" * 5000],
            f"--tp: expected an integer from 1 to 1024 (got '{'9' * 59}...)",
            TYPE_TP,
        ),
        (
            ["cluster.up", "--tp", "1025"],
            "--tp: expected an integer from 1 to 1024 (got '1025')",
            TYPE_TP,
        ),
        (
            ["cluster.up", "--tp", "00"],
            "--tp: expected an integer from 1 to 1024 (got '00')",
            TYPE_TP,
        ),
        (
            ["recipes.fit", "gpt-oss-120b", "--tp", "1025"],
            "--tp: expected an integer from 1 to 1024 (got '1025')",
            TYPE_TP,
        ),
        (
            ["cluster.up", "--lock-wait", "9999999h"],
            "--lock-wait: expected a duration of at most a year (got '9999999h')",
            "type: --lock-wait 30s",
        ),
        (
            ["links.bench", "--seconds", "0"],
            "--seconds: expected a duration >= 0.01s (got '0')",
            "type: --seconds 30s",
        ),
        (
            ["serve.watch", "--every", "0s"],
            "--every: expected a duration >= 0.1s (got '0s')",
            "type: --every 30s",
        ),
        (
            ["serve.bench", "--context", "nan"],
            "--context: expected a number of tokens from 1 to 1073741824 (got 'nan')",
            "type: --context 65536",
        ),
        (
            ["links.bench", "--svg", "none/x.svg", "--inventory", PAIR],
            "folder none not found",
            "create it: mkdir -p none",
        ),
        (["links.show", "--svg", ".", "-i", PAIR], "--svg . is a folder", "name a file in it"),
        (["--list", "clustr"], "group of tasks 'clustr' not found", "did you mean 'cluster'?"),
        (["cluster.up", "--recipe", ""], "--recipe is empty", "give it a value, or leave it out"),
        (["cluster.down", "--limit="], "--limit is empty", "give it a value, or leave it out"),
        (["doctor", ""], "--log is empty", "give it a value, or leave it out"),
    ],
)
def test_a_command_line_that_cannot_be_is_explained(
    call: Call, words: list[str], expected: str, hint: str
) -> None:
    done = call(*words)
    assert done.stderr == f"{expected}\n" + (f"  {hint}\n" if hint else "")
    assert (done.returncode, done.stdout) == (5, "")


def test_tasks_and_options_are_completed(call: Call) -> None:
    assert (
        "complete -F _complete_sparkfleet sparkfleet"
        in call("--print-completion-script", "bash").stdout
    )
    assert "cluster.up" in call("--complete", "--", "sparkfleet clu").stdout.split()
    for binary, door in (("sparkfleet", "sparkfleet"), ("invoke", "invoke"), ("inv", "invoke")):
        done = call("--complete", "--", f"{binary} cluster.up --t", door=door)
        assert "--tp" in done.stdout.split()


@pytest.mark.parametrize("option", ["--dry", "-R", "--hide=x", "--echo", "--pty", "--warn-only"])
def test_options_of_invoke_that_mean_nothing_here_are_refused(call: Call, option: str) -> None:
    for words in ([option, "recipes.list"], ["recipes.list", option]):
        done = call(*words)
        assert (done.returncode, done.stdout) == (5, "")


def test_the_letters_of_ansible_are_understood(call: Call) -> None:
    words = ["inventory.host", "spark1", "-i", PAIR, "-e", "vllm_port=8123"]
    assert json.loads(call(*words).stdout)["vllm_port"] == 8123
    done = call("cluster.up", "-i", PAIR, "-l", "nobody", "-C", "-D", "-f", "2", "-v", "-K")
    assert "'nobody' matches no host" in done.stderr


def test_tasks_on_one_line_run_until_one_fails(call: Call) -> None:
    both = call("recipes.list", "playbook.actions")
    assert both.returncode == 0
    assert "gpt-oss-120b" in both.stdout
    assert "arm_guard" in both.stdout
    done = call("recipes.show", "nope", "recipes.list")
    assert (done.returncode, done.stdout) == (5, "")


@pytest.mark.parametrize(
    "words",
    [
        ["cluster.up", "--tp", "two"],
        ["cluster.up", "--inventory", "nowhere.yml"],
        ["cluster.status", "--inventory", "nowhere.yml"],
        ["hosts.facts", "--forks", "0"],
        ["links.bench", "--seconds", "x", "--inventory", PAIR],
        ["weights.plan", "--recipe", "nope", "--inventory", PAIR],
        ["recipes.show", "nope"],
        ["recipes.fit", "nope"],
        ["doctor", "nowhere"],
        ["serve.watch", "--every", "x"],
    ],
)
def test_what_cannot_begin_is_a_json_document_too(call: Call, words: list[str]) -> None:
    done = call(*words, "--output", "json")
    result = json.loads(done.stdout)
    assert (result["exit_code"], done.returncode) == (5, 5)
    assert result["errors"][0]["message"] in done.stderr


def test_a_document_of_a_run_that_did_not_begin_names_its_task(call: Call) -> None:
    done = call("cluster.up", "-C", "--inventory", "nowhere.yml", "--output", "json")
    result = json.loads(done.stdout)
    assert (result["task"], result["check"]) == ("cluster.up", True)


def test_a_bug_and_an_interrupt_are_json_documents_too(capfd: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise ZeroDivisionError("boom")

    def cut() -> None:
        raise KeyboardInterrupt

    assert command.run_task(broken, output="json") == 1
    result = capfd.readouterr()
    assert json.loads(result.out)["errors"][0]["message"].startswith("a bug in sparkfleet")
    Path(result.err.split("please report it with ")[1].strip()).unlink()
    assert command.run_task(cut, output="json") == 130
    assert json.loads(capfd.readouterr().out)["exit_code"] == 130


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PermissionError(13, "Permission denied", "/keys/x"), "/keys/x: Permission denied"),
        (OSError(36, "File name too long", "aaa"), "aaa: File name too long"),
        (
            RuntimeError("Could not determine home directory."),
            "cannot determine your home directory",
        ),
    ],
)
def test_a_refusal_of_this_machine_is_not_a_bug(
    capfd: pytest.CaptureFixture[str], error: Exception, expected: str
) -> None:
    def refused() -> None:
        raise error

    assert command.run_task(refused) == 5
    assert capfd.readouterr().err.startswith(f"{expected}\n  ")


@pytest.mark.parametrize("task", ["recipes.show", "recipes.validate", "doctor", "playbook.run"])
def test_a_name_that_no_file_can_have_is_not_a_bug(call: Call, task: str) -> None:
    done = call(task, "a" * 300 + ".yml")
    assert "a bug" not in done.stderr
    assert done.returncode == 5


def test_every_host_is_named_with_what_is_wrong_on_it(capfd: pytest.CaptureFixture[str]) -> None:
    answers: Answers[None] = Answers(
        values={},
        errors={
            "a": UnreachableError("no route", host="a", hint="ssh -v a"),
            "b": GateError("no rail", host="b"),
        },
    )

    def look() -> None:
        answers.all()

    assert command.run_task(look) == 6
    assert capfd.readouterr().err == "a: no route\n  ssh -v a\nb: no rail\n"
    assert command.run_task(look, output="json") == 6
    result = json.loads(capfd.readouterr().out)["errors"]
    assert [one["host"] for one in result] == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["cluster.upp"], "did you mean 'cluster.up'?"),
        (["cluster.up", "--recip", "x"], "did you mean '--recipe'?"),
        (["cluster.up", "--step"], "type: --start-at NAME, or --tags"),
        (["cluster.up", "-b"], "write become: true in the play or task"),
        (["cluster.up", "--become-user", "me"], "type: --set ansible_become_user=NAME, or set"),
        (["cluster.up", "-u", "me"], "type: --set ansible_user=NAME"),
        (["cluster.up", "--ask-vault-pass"], "ansible-vault is not supported"),
        (["cluster.up", "--zzz"], "see its options: sparkfleet cluster.up --help"),
        (["cluster.up", "--tp", "two"], "--tp: expected an integer from 1 to 1024 (got 'two')"),
        (["cluster.up", "--tp", "0"], "--tp: expected an integer from 1 to 1024 (got '0')"),
        (["cluster.up", "--solo", "--tp", "2"], "--solo cannot be combined with --tp"),
        (["cluster.up", "--set", "port"], "--set: expected NAME=VALUE (got 'port')"),
        (["cluster.up", "--lock-wait", "soon"], "expected a duration such as 90s"),
        (["cluster.up", "--allow-degraded", " "], "--allow-degraded needs a reason"),
        (
            ["cluster.up", "--inventory", "nowhere.yml"],
            "nowhere.yml: not found\n  create an inventory: sparkfleet init; or pass another file",
        ),
        (["cluster.up", "--set", "@nowhere"], "--set @nowhere: not found\n  type: --set @FILE\n"),
        (["cluster.up", "--set", "{1: 2}"], "--set: expected a mapping of names to values (got"),
        (["recipes.validate", "lab-tiny", "--vllm", "x"], "--vllm: expected a version (got 'x')"),
        (["init", "--host", "a b"], "--host: expected an address or USER@ADDRESS (got 'a b')\n"),
        (["recipes.new", "a/b", "--out", "foo.txt"], "in .yml\n  type: --out foo.yml\n"),
        (["recipes.remove", "foo"], "shelf 'foo' not found\n  shelves: none\n"),
        (["cluster.up", "--inventory", PAIR, "-e", "vllm_recipe="], "no recipe was given"),
        (["cluster.up", "--inventory", PAIR, "--recipe", "nope"], "recipe 'nope' not found"),
        (
            ["cluster.up", "--inventory", PAIR, "--recipe", "lab-tiny", "--tp", "3"],
            "--tp 3 needs 3 Sparks, but cluster 'default' has 2: spark1, spark2\n",
        ),
        (
            ["cluster.up", "--inventory", PAIR, "--recipe", "llama-3.3-70b-tp2", "--solo"],
            "recipe llama-3.3-70b-tp2 needs --tp >= 2 (got 1)",
        ),
        (["cluster.up", "--inventory", PAIR, "--limit", "sparc1"], "did you mean 'spark1'?"),
        (["inventory.host", "spark9", "--inventory", PAIR], "host 'spark9' not found\n  did you"),
        (["inventory.host", "x", "-i", PAIR], "host 'x' not found\n  hosts: spark1, spark2\n"),
        (["inventory.list", "--inventory", PAIR, "--set", "vllm_prot=1"], "vllm_port"),
    ],
)
def test_wrong_input_ends_with_5_and_says_what_to_type(
    call: Call, words: list[str], expected: str
) -> None:
    done = call(*words)
    assert expected in done.stderr
    assert done.returncode == 5
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\n", "i:1:1: the inventory is empty\n  start with: sparks:"),
        ("sparks: 3\n", "group 'sparks' is an integer, not a mapping"),
        ("sparks: {hosts: {}}\n", "i: no hosts in the group `sparks`\n  add your machines to it"),
        ("[sparks\none\n", "i:1:1: host '[sparks': a range lacks its closing bracket ]"),
        ("sparks: {\n", "i:2:1: invalid YAML: the file ends inside [ or {"),
    ],
)
def test_an_invalid_inventory_is_reported_with_its_place(
    call: Call, tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "i").write_text(text)
    done = call("hosts.facts", "--inventory", "i")
    assert expected in done.stderr
    assert "    \n    ^" not in done.stderr  # a caret below nothing
    assert done.returncode == 5


def test_the_inventory_is_the_first_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARKFLEET_INVENTORY", raising=False)
    monkeypatch.setattr(defaults, "LAB_INVENTORY", tmp_path / "lab-inventory.yml")
    for name in ("a.yml", "b.yml", "c.yml", "d.yml", "e.yml"):
        (tmp_path / name).write_text(MINIMAL)
    with pytest.raises(UsageError) as caught:
        defaults.find_inventory_files([])
    assert "create inventories/local.yml: sparkfleet init" in str(caught.value)
    (tmp_path / "lab-inventory.yml").write_text(MINIMAL)
    with pytest.raises(UsageError, match="for the running lab: --inventory lab"):
        defaults.find_inventory_files([])
    assert defaults.find_inventory_files(["lab"]) == [str(tmp_path / "lab-inventory.yml")]
    (tmp_path / "inventories").mkdir()
    (tmp_path / "inventories" / "local.yml").write_text(MINIMAL)
    assert defaults.find_inventory_files([]) == ["inventories/local.yml"]
    (tmp_path / "invoke.yaml").write_text("inventory: [a.yml, b.yml]\n")
    assert defaults.find_inventory_files([]) == ["a.yml", "b.yml"]
    (tmp_path / "sparkfleet.yaml").write_text("inventory: c.yml\n")
    assert defaults.find_inventory_files([]) == ["c.yml"]
    monkeypatch.setenv("SPARKFLEET_INVENTORY", "d.yml,e.yml")
    assert defaults.find_inventory_files([]) == ["d.yml", "e.yml"]
    assert defaults.find_inventory_files(["f.yml"]) == ["f.yml"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("inventori: a.yml\n", "sparkfleet.yaml:1:1: unknown setting 'inventori'"),
        ("- a.yml\n", "sparkfleet.yaml:1:1: expected a mapping (got ['a.yml'])\n"),
        (
            "inventory: 3\n",
            (
                "sparkfleet.yaml:1:12: inventory: expected a file, or a list of files (got 3)\n"
                "    inventory: 3\n               ^\n  write: inventory: inventories/local.yml\n"
            ),
        ),
        ("inventory: gone.yml\n", "inventory gone.yml not found\n  it is named in sparkfleet.yaml"),
    ],
)
def test_a_file_of_settings_that_means_nothing_is_refused(
    call: Call, tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "sparkfleet.yaml").write_text(text)
    done = call("hosts.facts")
    assert done.stderr.startswith(expected)
    assert done.returncode == 5


def test_the_variable_that_names_a_missing_inventory_is_named(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKFLEET_INVENTORY", "gone.yml")
    result = "inventory gone.yml not found\n  it is named in SPARKFLEET_INVENTORY\n"
    assert call("hosts.facts").stderr == result


@pytest.mark.parametrize("task", ["hosts.facts", "cluster.status", "cluster.down", "links.show"])
def test_an_unsupported_ssh_option_is_reported_before_the_first_connection(
    call: Call, tmp_path: Path, task: str
) -> None:
    (tmp_path / "config").write_text("Host far\n ProxyCommand nc %h %p\n")
    (tmp_path / "i.yml").write_text(
        f"sparks: {{hosts: {{far: , near: {{ansible_host: 127.0.0.1, ansible_port: 1}}}}, "
        f"vars: {{ansible_ssh_common_args: -F {tmp_path}/config}}}}\n"
    )
    done = call(task, "-i", "i.yml")
    assert done.stderr.startswith("unsupported SSH option for far: ProxyCommand nc %h %p")
    assert (done.returncode, done.stdout) == (5, "")


def test_files_are_not_joined_by_commas(call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(MINIMAL)
    done = call("inventory.list", "-i", f"a.yml,{PAIR}")
    problem = "a.yml is a file, but commas separate hosts, not files"
    assert f"{problem}\n  pass each file with its own --inventory" in done.stderr
    assert done.returncode == 5


def test_the_inventory_of_ansible_cfg_is_named_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARKFLEET_INVENTORY", raising=False)
    (tmp_path / "ansible.cfg").write_text("[defaults]\ninventory = hosts/all.ini\n")
    with pytest.raises(UsageError, match=r"ansible.cfg is not read; .*: --inventory hosts/all.ini"):
        defaults.find_inventory_files([])


def test_the_recipe_is_the_one_given_else_the_inventorys() -> None:
    host = Host(name="h", vars={"vllm_recipe": Value(data="own")})
    assert defaults.choose_recipe_name("asked", host) == "asked"
    assert defaults.choose_recipe_name(None, host) == "own"
    with pytest.raises(UsageError, match="no recipe"):
        defaults.choose_recipe_name(None, Host(name="h"))


def test_values_of_set_are_read_as_yaml() -> None:
    typed = {"set": ["vllm_port=8001", "vllm_args={a: [1, x]}", "name=a=b"]}
    given = parse_options(Options, "t", typed).set_variables
    assert given == {"vllm_port": 8001, "vllm_args": {"a": [1, "x"]}, "name": "a=b"}


@pytest.mark.parametrize("text", ["true: 1", "1: x", "a-b: 1", "[a]", "null: {}"])
def test_a_file_of_variables_has_names(tmp_path: Path, text: str) -> None:
    path = tmp_path / "set.yml"
    path.write_text(text)
    with pytest.raises(UsageError, match="expected a mapping of names to values"):
        parse_options(Options, "t", {"set": [f"@{path}"]})


def test_a_variable_of_set_wins_and_says_so(call: Call) -> None:
    words = ["inventory.host", "spark1", "--inventory", PAIR, "--set", "link_mtu=1500"]
    assert json.loads(call(*words).stdout)["link_mtu"] == 1500
    assert "--set" in call(*words, "--explain", "link_mtu").stdout


@pytest.mark.parametrize(
    "words",
    [
        ["cluster.status"],
        ["cluster.logs"],
        ["cluster.unlock"],
        ["cluster.render", "--recipe", "lab-tiny", "--out", "out"],
        ["hosts.facts"],
        ["hosts.check", "--recipe", "lab-tiny"],
        ["links.show"],
        ["weights.plan", "--recipe", "lab-tiny", "--set", "weights_offline=true"],
    ],
)
def test_the_first_line_says_which_files_were_taken(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    hosts = "{one: {ansible_port: 1}, two: {ansible_port: 2}}"
    address = "{ansible_host: 127.255.255.255}"  # of no host: nothing is tried again
    (tmp_path / "i.yml").write_text(f"sparks: {{hosts: {hosts}, vars: {address}}}\n")
    done = call(*words, "--inventory", "i.yml")
    recipe = "  recipe lab-tiny (shipped)" if "lab-tiny" in words else ""
    assert done.stdout.splitlines()[0] == f"{words[0]}  inventory i.yml{recipe}"
    assert done.returncode in (4, 5)  # no host answers, and the Hub is not asked


def test_a_bug_ends_with_1_and_a_file_and_no_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("boom")

    assert command.run_task(broken) == 1
    result = capfd.readouterr().err
    assert "a bug in sparkfleet: ZeroDivisionError: boom" in result
    assert "Traceback" not in result
    log = Path(result.split("please report it with ")[1].strip())
    assert "raise ZeroDivisionError" in log.read_text()
    log.unlink()


def test_a_plain_inventory_task_is_answered_without_invoke() -> None:
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['sparkfleet', 'inventory.list', '--inventory', {PAIR!r}]\n"
        "try: runpy.run_module('sparkfleet', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print('\\nLOADED', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    text, loaded = done.stdout.split("\nLOADED ")
    assert json.loads(text)["sparks"]["hosts"] == ["spark1", "spark2"]
    assert not {"invoke", "rich", "jinja2"} & {name.split(".")[0] for name in loaded.split()}


@pytest.mark.parametrize("task", ["list", "graph"])
def test_both_doors_print_the_same_inventory(call: Call, task: str) -> None:
    words = [f"inventory.{task}", "--inventory", PAIR]
    assert call(*words).stdout == call(*words, door="invoke").stdout


@pytest.mark.parametrize("task", ["cluster.up", "inventory.host", "playbook.run", "weights.prune"])
def test_every_task_explains_itself(call: Call, task: str) -> None:
    done = call(task, "--help")
    assert done.returncode == 0, done.stderr
    assert "-i FILE, --inventory=FILE " in done.stdout
    needed = {"inventory.host": " NAME", "playbook.run": " FILE", "weights.prune": " NAME"}
    assert done.stdout.startswith(f"Usage: sparkfleet {task}{needed.get(task, '')} [--options]\n")


@pytest.mark.parametrize("task", ["cluster.logs", "cluster.status", "lab.engine"])
def test_examples_are_indented(call: Call, task: str) -> None:
    lines = call(task, "--help").stdout.partition("Options:")[0].splitlines()
    examples = [line for line in lines[1:] if f"sparkfleet {task}" in line]
    assert len(examples) == 2
    assert all(line.startswith("  sparkfleet ") for line in examples)


def test_help_may_be_a_word(call: Call) -> None:
    assert call("help", "cluster.up").stdout == call("cluster.up", "--help").stdout
    assert call("help").stdout == call("--help").stdout

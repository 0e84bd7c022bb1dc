"""Messages for a command line that invoke's parser refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from invoke.parser.argument import Argument

from sparkfleet.cli.task_help import find_option, list_options_of
from sparkfleet.cli.tasks import namespace
from sparkfleet.command_name import expand_commands, name_command
from sparkfleet.spelling import suggest_similar

HELP = "help"  # typed before a task, as --help after it
CORE = ("--help", "--list", "--version")
FEW = 8  # options that a hint lists
ANSIBLE = {  # options of ansible-playbook, and what to type here
    "--extra-vars": "Ansible's --extra-vars is --set here",
    "--inventory-file": "Ansible's --inventory-file is --inventory here",
    "--start-at-task": "Ansible's --start-at-task is --start-at here",
    "--user": "type: --set ansible_user=NAME, or set ansible_user in the inventory",
    "--private-key": "type: --set ansible_ssh_private_key_file=FILE, or set it in the inventory",
    "--become": "write become: true in the play or task; --ask-become-pass asks for the password",
    "--become-user": "type: --set ansible_become_user=NAME, or set it in the inventory",
    "--ask-pass": "SSH accepts keys only; to copy yours to the hosts: {task:hosts.authorize}",
    "--vault-password-file": "ansible-vault is not supported: give secrets by {from_file: PATH}",
    "--syntax-check": "type: --list-tasks, which reads the playbook and touches no host",
    "--step": "type: --start-at NAME, or --tags",
    "--ssh-common-args": "set ansible_ssh_common_args in the inventory",
}
ALIASES = {
    "-u": "--user",
    "-b": "--become",
    "-k": "--ask-pass",
    "-J": "--vault-password-file",
    "--key-file": "--private-key",
    "--ask-vault-pass": "--vault-password-file",
    "--ask-vault-password": "--vault-password-file",
    "--vault-id": "--vault-password-file",
    "--connection-password-file": "--ask-pass",
    "--ssh-extra-args": "--ssh-common-args",
}


def explain_parse_error(message: str, argv: Sequence[str]) -> tuple[str, str]:
    """Return the parser's `message` reworded, and what to type next, or ""."""
    if match := re.match(r"Flag <Argument: ([\w-]+)", message):
        option = f"--{match[1].replace('_', '-')}"
        return f"{option} needs a value", _suggest_value(option, argv)
    if match := re.match(r"'(.+)' did not receive", message):
        positional = [
            str(argument.name).upper()
            for argument in _map_arguments(match[1]).values()
            if argument.positional
        ]
        form = " ".join([match[1], *dict.fromkeys(positional)])
        return (
            f"{match[1]} needs {' and '.join(form.split()[1:])}",
            f"type: {name_command(form)}",
        )
    if match := re.fullmatch(r"No idea what '(.+)' is!", message, re.DOTALL):
        return _explain_unknown(match[1], argv)
    if match := re.fullmatch(r"Sub-collection '(.+)' not found!", message, re.DOTALL):
        return f"group of tasks {match[1]!r} not found", suggest_similar(
            match[1], {task.partition(".")[0] for task in namespace.task_names if "." in task}
        )
    return message, ""


def _suggest_value(option: str, argv: Sequence[str]) -> str:
    """Return how `option` is typed, by the kind of its value in the last task that has it."""
    for task in (part for part in reversed(argv) if part in namespace.task_names):
        if found := find_option(list_options_of(namespace[task]), option):
            choices = found.value.split("|")
            if len(choices) > 1:
                return f"its values: {', '.join(choices)}"
            return f"type: {option} {found.value}"
    return ""


def _explain_unknown(word: str, argv: Sequence[str]) -> tuple[str, str]:
    before = argv[: argv.index(word)] if word in argv else argv
    task = next((part for part in reversed(before) if part in namespace.task_names), None)
    if task is None:
        kind = "option" if word.startswith("-") else "task"
        return f"{kind} {word!r} not found", _suggest_before_tasks(word, argv)
    arguments = _map_arguments(task)
    typed = [part.partition("=")[0] for part in argv[argv.index(task) + 1 :]]
    options = [word, *(part for part in typed if part.startswith("--"))]
    if odd := [part for part in options if part.startswith("-") and part not in arguments]:
        option_names = [name for name in arguments if name.startswith("--")]
        return f"{task} has no option {odd[0]}", _suggest_option(task, odd[0], option_names)
    for name, argument in arguments.items():
        if argument.kind is str and typed.count(name) > 1:
            return f"{name} is given twice", "leave one out"
        if argument.kind is bool and f"{name}={word}" in argv:
            return f"{name} takes no value (got {word!r})", f"type: {name}"
    return (
        f"{task}: unexpected argument {word!r}",
        f"see its options: {name_command(task)} --help",
    )


def _suggest_before_tasks(word: str, argv: Sequence[str]) -> str:
    """Return what to type instead of an unknown word before all tasks."""
    if not word.startswith("-"):
        names = [*namespace.task_names, HELP]
        return suggest_similar(word, names, kind="tasks", lister=name_command("--list"))
    task = next((part for part in argv if part in namespace.task_names), None)
    late = task is not None and word in _map_arguments(task)
    return f"it comes after {task}" if late else suggest_similar(word, CORE)


def _map_arguments(task: str) -> Mapping[str, Argument]:
    """Return the arguments of a task by each name that can be typed."""
    return {
        f"--{name.replace('_', '-')}" if len(name) > 1 else f"-{name}": argument
        for argument in namespace[task].get_arguments()
        for name in argument.names
    }


def _suggest_option(task: str, option: str, names: Sequence[str]) -> str:
    """Return what to type instead of an unknown option."""
    if meant := ANSIBLE.get(ALIASES.get(option, option)):
        return expand_commands(meant)
    near = suggest_similar(option, names) if option.startswith("--") else ""
    if near and (len(names) <= FEW or not near.startswith("known:")):
        return near
    return f"see its options: {name_command(task)} --help"

"""What to tell of a command line that invoke's parser does not understand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from invoke.parser.argument import Argument

from sparkfleet.cli.tasks import namespace
from sparkfleet.spelling import similar

CORE = ("--help", "--list", "--version")
ANSIBLE = {
    "--extra-vars": "--set",
    "--inventory-file": "--inventory",
    "--start-at-task": "--start-at",
}


def explain(message: str, words: Sequence[str]) -> tuple[str, str]:
    """Return the parser's `message` on `words` as we say it, and what to type next, or ""."""
    if found := re.match(r"Flag <Argument: ([\w-]+)", message):
        return f"--{found[1].replace('_', '-')} needs a value", ""
    if found := re.match(r"'(.+)' did not receive", message):
        positional = [
            str(one.name).upper() for one in _arguments(found[1]).values() if one.positional
        ]
        form = " ".join([found[1], *dict.fromkeys(positional)])
        return f"{found[1]} needs {' and '.join(form.split()[1:])}", f"type: {form}"
    if found := re.fullmatch(r"No idea what '(.+)' is!", message, re.DOTALL):
        return _unknown(found[1], words)
    return message, ""


def _unknown(word: str, words: Sequence[str]) -> tuple[str, str]:
    before = words[: words.index(word)] if word in words else words
    task = next((one for one in reversed(before) if one in namespace.task_names), None)
    if task is None:
        return f"No idea what {word!r} is!", _first(word, words)
    arguments = _arguments(task)
    typed = [one.partition("=")[0] for one in words[words.index(task) + 1 :]]
    options = [word, *(one for one in typed if one.startswith("--"))]
    if odd := [one for one in options if one.startswith("-") and one not in arguments]:
        known = [name for name in arguments if name.startswith("--")]
        return f"{task} has no option {odd[0]}", _meant(odd[0], known)
    for name, argument in arguments.items():
        if argument.kind is str and typed.count(name) > 1:
            return f"{name} is given twice", ""
        if argument.kind is bool and f"{name}={word}" in words:
            return f"{name} takes no value, and {word!r} is given", ""
    return f"{task} takes no {word!r}", f"what it takes: {task} --help"


def _first(word: str, words: Sequence[str]) -> str:
    """Return what to type in the place of what stands before all tasks."""
    if not word.startswith("-"):
        return similar(word, namespace.task_names)
    task = next((one for one in words if one in namespace.task_names), None)
    late = task is not None and word in _arguments(task)
    return f"it comes after {task}" if late else similar(word, CORE)


def _arguments(task: str) -> Mapping[str, Argument]:
    """Return the arguments of a task by each name that can be typed."""
    return {
        f"--{name.replace('_', '-')}" if len(name) > 1 else f"-{name}": argument
        for argument in namespace[task].get_arguments()
        for name in argument.names
    }


def _meant(option: str, known: Sequence[str]) -> str:
    """Return what to type in the place of an option that there is not."""
    if meant := ANSIBLE.get(option):
        return f"Ansible's {option} is {meant} here"
    return similar(option, known)

"""Completion on the command line: tasks, options and values; for bash, zsh and fish.

The scripts call ``sparkfleet --complete-words -- WORD...`` with the words after the program's name;
the last is being typed. The answer has a candidate a line, each a whole word, and ``:files`` or
``:folders`` where the shell's own completion of paths counts too.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from sparkfleet.cli.options import Option
from sparkfleet.cli.task_help import find_option, list_options_of
from sparkfleet.cli.tasks import namespace
from sparkfleet.errors import SparkfleetError, UsageError
from sparkfleet.model import Inventory

COMMAND = "--complete-words"
FILES = ":files"
FOLDERS = ":folders"
CORE = ("--help", "--list", "--version", "--print-completion-script")
PLAIN = re.compile(r"[A-Za-z0-9_./:@%+=,-]+")
SHELLS = ("bash", "zsh", "fish")


def list_candidates(words: Sequence[str]) -> Iterator[str]:
    """Yield the candidates for the last of `words`; never raises.

    bash inserts a candidate unquoted, so a name with shell metacharacters, such as from somebody
    else's project, would be run as a command. No such name is offered.
    """
    *before, typed = words or ("",)
    with contextlib.suppress(SparkfleetError, OSError, ValueError):
        yield from dict.fromkeys(
            candidate
            for candidate in _list_all(before, typed)
            if candidate.startswith((typed, ":")) and PLAIN.fullmatch(candidate)
        )


def _list_all(before: Sequence[str], typed: str) -> Iterator[str]:
    at = next(
        (at for at in reversed(range(len(before))) if before[at] in namespace.task_names), None
    )
    if at is None:
        yield from (*CORE, "help") if not before else ()
        if before and before[-1] == "--print-completion-script":
            yield from SHELLS
        else:
            yield from sorted(namespace.task_names)
        return
    options = list_options_of(namespace[before[at]])
    after = before[at + 1 :]
    name, equals, _ = typed.partition("=")
    option = find_option(options, after[-1]) if after else None
    if option and option.kind is not bool:
        yield from list_values(option, before)
    elif typed.startswith("--") and equals and (given := find_option(options, name)):
        yield from (_prefix(value, f"{name}=") for value in list_values(given, before))
    elif typed.startswith("-"):
        yield from (f"--{option.name}" for option in options if not option.positional)
    else:
        yield from _list_positional(options, after, before)


def _prefix(value: str, prefix: str) -> str:
    return value if value.startswith(":") else f"{prefix}{value}"


def _list_positional(
    options: Sequence[Option], after: Sequence[str], before: Sequence[str]
) -> Iterator[str]:
    """Yield the values of the next positional argument; of the first optional one without any."""
    expected = [option for option in options if option.positional or option.optional]
    given = sum(
        not word.startswith("-") and not _takes_value(options, previous)
        for previous, word in zip(("", *after), after, strict=False)
    )
    if given < len(expected):
        yield from list_values(expected[given], before)


def _takes_value(options: Sequence[Option], word: str) -> bool:
    option = find_option(options, word)
    return option is not None and option.kind is not bool


def list_values(option: Option, words: Sequence[str]) -> Iterator[str]:
    """Yield the values of an option that are known; `words` may name the inventory."""
    if option.value in SOURCES:
        yield from SOURCES[option.value](words)
    elif "|" in option.value:
        yield from option.value.split("|")


def _list_recipes(_words: Sequence[str]) -> Iterator[str]:
    from sparkfleet.recipes.extends import FOLDER
    from sparkfleet.resources import list_data_files

    yield from sorted(list_data_files(FOLDER, ".yml"))
    yield FILES


def _list_playbooks(_words: Sequence[str]) -> Iterator[str]:
    from sparkfleet.resources import list_data_files

    for folder in ("playbooks", "playbooks/examples"):
        yield from sorted(list_data_files(folder, ".yml"))
    yield FILES


def _list_hosts(words: Sequence[str]) -> Iterator[str]:
    yield from _load_inventory(words).hosts


def _list_patterns(words: Sequence[str]) -> Iterator[str]:
    inventory = _load_inventory(words)
    yield from inventory.hosts
    yield from inventory.groups


def _list_clusters(words: Sequence[str]) -> Iterator[str]:
    from sparkfleet.inventory.clusters import read_cluster_definitions

    yield from read_cluster_definitions(_load_inventory(words))


def _load_inventory(words: Sequence[str]) -> Inventory:
    from sparkfleet.cli import defaults
    from sparkfleet.inventory.loading import load_inventory

    named = [
        word.partition("=")[2] or following
        for word, following in zip(words, (*words[1:], ""), strict=False)
        if word.partition("=")[0] in ("-i", "--inventory")
    ]
    return load_inventory(defaults.find_inventory_files(list(filter(None, named))))


def _list_lab_hosts(_words: Sequence[str]) -> Iterator[str]:
    yield from _list_hosts(("-i", "lab"))


def _list_faults(_words: Sequence[str]) -> Iterator[str]:
    from sparkfleet.lab.faults.catalogue import FAULTS

    yield from sorted(FAULTS)


def _list_actions(_words: Sequence[str]) -> Iterator[str]:
    from sparkfleet.playbook.vocabulary import ACTIONS

    yield from sorted(ACTIONS)


def _list_variables(_words: Sequence[str]) -> Iterator[str]:
    from sparkfleet.variables import VARIABLES

    yield from sorted(VARIABLES)


def _list_pages(_words: Sequence[str]) -> Iterator[str]:
    from sparkfleet.cli.docs.pages import list_pages

    yield from list_pages()


def _list_assignments(words: Sequence[str]) -> Iterator[str]:
    yield from (f"{name}=" for name in _list_variables(words))


SOURCES: Mapping[str, Callable[[Sequence[str]], Iterator[str]]] = {
    "RECIPE": _list_recipes,
    "PLAYBOOK": _list_playbooks,
    "HOST": _list_hosts,
    "HOSTS": _list_patterns,
    "CLUSTER": _list_clusters,
    "LAB_HOST": _list_lab_hosts,
    "FAULT": _list_faults,
    "ACTION": _list_actions,
    "VARIABLE": _list_variables,
    "NAME=VALUE": _list_assignments,
    "PAGE": _list_pages,
    "FILE": lambda _words: iter((FILES,)),
    "FOLDER": lambda _words: iter((FOLDERS,)),
}

BASH = r"""# Completion of BINARY for bash: eval "$(BINARY --print-completion-script bash)"
_complete_BINARY() {
    local line="${COMP_LINE:0:COMP_POINT}" typed answer candidate cut=""
    local -a words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    typed="${words[${#words[@]}-1]}"
    answer="$(BINARY COMMAND -- "${words[@]:1}" 2>/dev/null)"
    # bash completes what follows the last = only
    [[ $typed == *=* && $COMP_WORDBREAKS == *=* ]] && cut="${typed%"${typed##*=}"}"
    COMPREPLY=()
    while IFS= read -r candidate; do
        case $candidate in
            :files)
                compopt -o filenames 2>/dev/null
                while IFS= read -r candidate; do COMPREPLY+=("$candidate"); done \
                    < <(compgen -f -- "${typed#--*=}") ;;
            :folders)
                compopt -o filenames 2>/dev/null
                while IFS= read -r candidate; do COMPREPLY+=("$candidate"); done \
                    < <(compgen -d -- "${typed#--*=}") ;;
            *=) compopt -o nospace 2>/dev/null; COMPREPLY+=("${candidate#"$cut"}") ;;
            ?*) COMPREPLY+=("${candidate#"$cut"}") ;;
        esac
    done <<<"$answer"
}
complete -F _complete_BINARY BINARY
"""
ZSH = r"""#compdef BINARY
# Completion of BINARY for zsh: eval "$(BINARY --print-completion-script zsh)"
_complete_BINARY() {
    local -a answer candidates
    answer=("${(@f)$(BINARY COMMAND -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    candidates=(${answer:#:*})
    (( $#candidates )) && compadd -- $candidates
    if (( ${answer[(Ie):files]} )); then
        compset -P '--*='
        _files
    elif (( ${answer[(Ie):folders]} )); then
        compset -P '--*='
        _files -/
    fi
}
compdef _complete_BINARY BINARY
"""
FISH = r"""# Completion of BINARY for fish: BINARY --print-completion-script fish | source
function __complete_BINARY
    set -l typed (commandline -ct)
    set -l words (commandline -opc) "$typed"
    set -l answer (BINARY COMMAND -- $words[2..-1] 2>/dev/null)
    string match -v -- ':*' $answer
    if contains -- :files $answer; or contains -- :folders $answer
        set -l head (string match -r -- '^--[^=]*=' $typed)
        for path in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$typed"))
            echo "$head$path"
        end
    end
end
complete -c BINARY -f -a '(__complete_BINARY)'
"""


def format_script(shell: str, binary: str) -> str:
    """Return the script of a shell; raises UsageError for another one."""
    scripts = dict(zip(SHELLS, (BASH, ZSH, FISH), strict=True))
    if shell not in scripts:
        raise UsageError(f"no completion for shell {shell!r}", hint=f"known: {', '.join(SHELLS)}")
    return scripts[shell].replace("BINARY", binary).replace("COMMAND", COMMAND)

"""Names of the options of `vllm serve`: short names, beginnings, negations, dashes."""

from __future__ import annotations

import re
from typing import Any

from sparkfleet.vllm.releases import load_release_table

SHORT_NAMES = {
    "O": "optimization-level",  # compilation-config before 0.11.1, which still reads -O3
    "ac": "attention-config",
    "asc": "api-server-count",
    "cc": "compilation-config",
    "dc": "diffusion-config",
    "dcp": "decode-context-parallel-size",
    "dp": "data-parallel-size",
    "dpa": "data-parallel-address",
    "dpb": "data-parallel-backend",
    "dpe": "data-parallel-external-lb",
    "dph": "data-parallel-hybrid-lb",
    "dpl": "data-parallel-size-local",
    "dpm": "data-parallel-multi-port-external-lb",
    "dpn": "data-parallel-rank",
    "dpp": "data-parallel-rpc-port",
    "dpr": "data-parallel-start-rank",
    "ep": "enable-expert-parallel",
    "h": "help",
    "n": "nnodes",
    "pcp": "prefill-context-parallel-size",
    "pp": "pipeline-parallel-size",
    "q": "quantization",
    "r": "node-rank",
    "sc": "speculative-config",
    "tp": "tensor-parallel-size",
}
ATTACHED = re.compile(r"-(?:(q)(?!=)(.+)|([nr])(\d+)|(O)=?([^.=].*))")  # -qfp8, -n2, -O3, -O=3
COMPILATION = "compilation-config"


def split_option_name(written: str, *, is_raw: bool = False) -> tuple[str, tuple[str, ...]]:
    """Return the long name of an option without dashes, and its dotted keys.

    Takes what vLLM's parser takes: short names, underscores, a unique beginning of a name, in a raw
    word with one dash that of a short name; and short names with two dashes or none, as people
    write them.
    """
    head, *path = written.lstrip("-").partition("=")[0].split(".")
    if is_raw and not written.startswith("--"):
        head = complete_short_name(head)
    return _complete_name(lengthen_name(head)), tuple(path)


def complete_short_name(name: str) -> str:
    """Return the only short name that begins with `name`; `name` itself where there are others."""
    completions = [short for short in SHORT_NAMES if short.startswith(name)]
    return completions[0] if len(completions) == 1 and name not in SHORT_NAMES else name


def complete_long_name(name: str) -> list[str]:
    """Return the long names of all releases that begin with `name`; itself alone if it is one."""
    known = load_release_table("options").spans
    return [name] if name in known else [option for option in known if option.startswith(name)]


def lengthen_name(name: str) -> str:
    """Return the long name for a short one, with dashes; a beginning of a name stays one."""
    dashed = name.replace("_", "-")
    return SHORT_NAMES.get(dashed, dashed)


def write_flag(written: str) -> str:
    """Return the word of a command line for an option as a file has it, with or without dashes."""
    return written if written.startswith("-") else f"--{written}"


def spell_option(written: str, value: Any) -> tuple[str, Any]:
    """Return an option of `vllm_args` as sparkfleet writes it: its word, and its value.

    It has its long name and no negation, whatever spelling the file has.
    """
    head, dot, path = written.lstrip("-").partition(".")
    if head == "O" and not dot and is_level(value):
        return "-O", value  # two options, by the release
    name = COMPILATION if head == "O" else lengthen_name(head)
    if name.startswith("no-") and (value is None or isinstance(value, bool)):
        name, value = lengthen_name(name.removeprefix("no-")), negate_flag(value)
    return f"--{name}{dot}{path}", value


def is_level(value: Any) -> bool:
    """Return whether a value of -O is a level, and not an object of --compilation-config."""
    return str(value).isdecimal()


def negate_flag(value: Any) -> bool | None:
    """Return the value of a flag for that of its negation, which is true, false or null."""
    return None if value is None else not value


def remove_negation(name: str) -> str:
    """Return the long name of the option that a name without ``no-`` is."""
    return split_option_name(name.removeprefix("no-"))[0] if name.startswith("no-") else name


def _complete_name(name: str) -> str:
    """Return the only option that begins with `name`; `name` itself where there are others."""
    completions = complete_long_name(name) if name else []
    return completions[0] if len(completions) == 1 else name

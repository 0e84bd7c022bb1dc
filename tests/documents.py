"""Commands as the documents print them, read from the copies in ``tests/seeds``."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

SEEDS = Path(__file__).parent / "seeds"
FENCE = re.compile(r"^```\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
TAKES_VALUE = (
    *("--name", "--gpus", "--ipc", "--network", "--runtime", "--restart", "--shm-size"),
    *("-p", "-e", "-v"),
)
STATEMENT = re.compile(r"docker run -d|vllm serve|--speculative-config")


@dataclass
class Command:
    """The command that a document shows; empty where it leaves something out."""

    image: str = ""
    model: str = ""
    env: dict[str, str] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)
    mounts: list[str] = field(default_factory=list)
    port: int | None = None
    pip: list[str] = field(default_factory=list)


def command(document: str, section: str, number: int = 0) -> Command:
    """Return the command of the block `number` under the heading that begins with `section`."""
    text = (SEEDS / document).read_text()
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    (part,) = (part for part in parts if part.startswith(section))
    return parse(FENCE.findall(part)[number])


def parse(block: str) -> Command:
    """Return the one command of a block: of a shell, or of the community's recipe."""
    if block.startswith("model:"):
        return _community(yaml.safe_load(block))
    lines = block.replace("\\\n", " ").splitlines()
    (line,) = (one for one in lines if STATEMENT.search(one) and "--rm" not in one)
    return _words(shlex.split(line, comments=True))


def _community(recipe: dict[str, Any]) -> Command:
    found = parse(recipe["command"].replace("\\\n", " ").strip())
    found.image = recipe["container"]
    found.port = recipe["defaults"].pop("port")
    found.args |= {name.replace("_", "-"): str(value) for name, value in recipe["defaults"].items()}
    return found


def _words(words: list[str]) -> Command:
    found = Command()
    rest = iter(words)
    if words[:2] == ["docker", "run"]:
        left = _docker(words[2:], found)
        rest = iter(left)
    else:
        rest = iter(_after_serve(words, found))
    _serve(list(rest), found)
    return found


def _docker(words: list[str], found: Command) -> list[str]:
    """Read the options of `docker run`; return the words after the image."""
    at = 0
    while words[at].startswith("-"):
        option, _, value = words[at].partition("=")
        if option in TAKES_VALUE and not value:
            at += 1
            value = words[at]
        _option(option, value, found)
        at += 1
    found.image = words[at]
    return words[at + 1 :]


def _option(option: str, value: str, found: Command) -> None:
    if option == "-e":
        name, _, text = value.partition("=")
        found.env[name] = text
    elif option == "-v":
        found.mounts.append(value)
    elif option == "-p":
        found.port = int(value.partition(":")[0])


def _after_serve(words: list[str], found: Command) -> list[str]:
    """Return the words of `vllm serve`; of a fragment, its options, with variables read."""
    if "vllm" in words:
        before = words[: words.index("vllm")]
        for at, word in enumerate(before):
            if word == "-e":
                _option("-e", before[at + 1], found)
            elif word == "-t":
                found.image = before[at + 1]
        return words[words.index("vllm") :]
    return words


def _serve(words: list[str], found: Command) -> None:
    if words[:2] == ["bash", "-lc"]:
        install, serve = (shlex.split(part) for part in words[2].split("&&"))
        found.pip = [word for word in install[2:] if not word.startswith("-")]
        words = serve
    if words[:2] == ["vllm", "serve"]:
        words = words[2:]
    if words and not words[0].startswith("-"):
        found.model, words = words[0], words[1:]
    found.args = dict(_flags(words))
    found.model = found.model or str(found.args.pop("model", ""))


def _flags(words: list[str]) -> Iterator[tuple[str, Any]]:
    at = 0
    while at < len(words):
        name, value = words[at].lstrip("-"), None
        if at + 1 < len(words) and not words[at + 1].startswith("-"):
            at += 1
            value = words[at]
        at += 1
        yield name, _value(value)


def _value(text: str | None) -> Any:
    if text is None:
        return True
    return json.loads(text) if text.startswith('{"') else text

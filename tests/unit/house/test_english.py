"""Messages, docstrings, comments and documents use plain, standard English.

`python tests/unit/house/test_english.py [AREA ...]` prints each banned word with file and line,
then the count of each area.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]

# Pattern and what to write in its place.
BANNED = (
    (r"\b(?:tell|tells|telling|told)\b", "say, report, show, distinguish"),
    (r"\bnobody\b|\bwhoever\b|\bwhomever\b", "no one; name the subject"),
    (r"\bours\b", "managed by sparkfleet"),
    (r"\bstands\b(?! (?:for|in for)\b)", "is"),
    (r"\bbeside\b", "next to, with, as well as"),
    (r"\b(?:take|takes|taking|taken|took)(?: (?:it|this|that|them|all|what))* back\b", "roll back"),
    (r"\b(?:mend|mends|mended|mending)\b", "fix"),
    (r"\bgone\b", "no longer exists"),
    (r"\bcures?\b", "fix"),
    (r"(?<!there )\bis no (?!longer\b|more\b|match\b|\w+er than\b)\w", "is not a; not found"),
    (
        r"\bthere is no (?:recipe|host|group|task|setting|inventory|variable|file|folder)\b",
        "not found",
    ),
    (r"\bat least, not\b", "must be >= X (got Y)"),
    (r"\bwhole numbers? from\b", "an integer >= 1"),
    (r"\bbrings\b(?!(?: \w+){0,4} up\b)", "copies, restores, installs"),
    (r"\bwhat is there\b", "name the thing"),
)
# References to documents that are not part of the project. Tests may name the case they cover.
PRIVATE = (
    (
        r"\bfailures? \d+\b|\bcases? C\d+\b|\bC[0-5]\d\b|(?<![\w/.`])facts/[\w-]+\.md|\bfacts \d"
        r"|\b(?:cases|dgx-spark)\.md\b|(?<![\w/(\[])lab\.md\b"
    ),
    "name a public source, or none",
)
# A docstring starts with a verb or a noun, not with a relative clause.
RELATIVE = (
    r"\A(?:What|Who|Whose|Which|Where|How(?! (?:many|much|long|far|often)))\b(?!.*\?)",
    "start with a verb or a noun",
)

SUSPICIOUS = re.compile(
    "|".join(pattern for pattern, _ in (*BANNED, PRIVATE)), re.IGNORECASE
)  # any of them in one search

# Text that is not our English: (file, part of the text) and the reason.
EXEMPT: dict[tuple[str, str], str] = {
    ("docs/lab.md", "nic-gone"): "the name of a fault",
    ("sparkfleet/lab/faults/catalogue.py", "nic-gone"): "the name of a fault",
    ("sparkfleet/lab/fleet.py", "nic-gone"): "the name of a fault",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One text that a person reads, with the line where it starts."""

    file: str
    line: int
    content: str
    docstring: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A banned word in a text."""

    file: str
    line: int
    word: str
    excerpt: str
    instead: str

    def __str__(self) -> str:
        """Return the hit as a compiler would print it."""
        return f"{self.file}:{self.line}: {self.word!r} ({self.instead}): {self.excerpt}"


def find_files() -> Iterator[Path]:
    """Yield each file whose text is checked."""
    for pattern in (
        "*.md",
        "docs/*.md",
        "templates/*",
        "playbooks/**/*.yml",
        "inventories/**/*.yml",
        "sparkfleet/**/*.sh",
        "pyproject.toml",
        "tasks.py",
        "demo",
        "test",
        ".ci/*",
        ".ci/hooks/*",
    ):
        yield from sorted(path for path in CHECKOUT.glob(pattern) if path.is_file())
    for folder in ("benchmarks", "sparkfleet", "tests"):
        yield from sorted(CHECKOUT.joinpath(folder).rglob("*.py"))


def name_area(file: str) -> str:
    """Return the area of a file: its package, its folder of tests, or the document itself."""
    parts = file.split("/")
    if file.endswith(".md"):
        return file
    if parts[:2] == ["tests", "unit"]:
        return "/".join(parts[:3])
    return "/".join(parts[:2]) if parts[0] in ("sparkfleet", "tests") and parts[2:] else parts[0]


def list_areas() -> list[str]:
    """Return every area, each of which is one test."""
    return sorted({name_area(path.relative_to(CHECKOUT).as_posix()) for path in find_files()})


def read_texts(path: Path) -> Iterator[Text]:
    """Yield what a person reads in a file: strings, docstrings and comments, or all of it."""
    file = path.relative_to(CHECKOUT).as_posix()
    source = path.read_text()
    if path.suffix != ".py":
        for number, line in enumerate(source.splitlines(), 1):
            yield Text(file=file, line=number, content=line)
        return
    yield from _read_comments(file, source)
    if file.startswith("tests/"):
        yield from _read_definitions(file, ast.parse(source))
        return
    nodes = tuple(ast.walk(ast.parse(source)))
    documented = {docstring for node in nodes if (docstring := _find_docstring(node))}
    patterns = set(_find_patterns(nodes))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in patterns:
            yield Text(
                file=file, line=node.lineno, content=node.value, docstring=node in documented
            )


def _read_definitions(file: str, node: ast.AST) -> Iterator[Text]:
    """Yield the docstrings of a module and its definitions, and the names of its tests."""
    if docstring := _find_docstring(node):
        text = str(docstring.value)
        yield Text(file=file, line=docstring.lineno, content=text, docstring=True)
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
        yield Text(file=file, line=node.lineno, content=node.name.replace("_", " "))
    for inner in getattr(node, "body", ()):
        if isinstance(inner, ast.stmt):
            yield from _read_definitions(file, inner)


def _read_comments(file: str, source: str) -> Iterator[Text]:
    """Yield the comments of a file, or none where no line with a # has a banned word."""
    if not any("#" in line and SUSPICIOUS.search(line) for line in source.splitlines()):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(file=file, line=token.start[0], content=token.string)


def _find_docstring(node: ast.AST) -> ast.Constant | None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first.value
    return None


def _find_patterns(nodes: Iterable[ast.AST]) -> Iterator[ast.Constant]:
    """Yield the constants of regular expressions: they match what others write."""
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
        ):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant):
                    yield part


def find_hits(text: Text) -> Iterator[Hit]:
    """Yield each banned word of a text that no exemption covers."""
    patterns = [RELATIVE] if text.docstring else []
    if SUSPICIOUS.search(text.content):
        patterns += BANNED
        patterns += [PRIVATE] if not text.file.startswith("tests/") else []
    if any(text.file == file and part in text.content for file, part in EXEMPT):
        return
    lines = text.content.splitlines()
    for pattern, instead in patterns:
        for match in re.finditer(pattern, text.content, re.IGNORECASE):
            below = text.content.count("\n", 0, match.start())
            yield Hit(
                file=text.file,
                line=text.line + below,
                word=match.group(),
                excerpt=lines[below].strip()[:100],
                instead=instead,
            )


@functools.cache
def read_all_texts() -> tuple[Text, ...]:
    """Return what a person reads in the whole checkout."""
    return tuple(text for path in find_files() for text in read_texts(path))


@pytest.fixture(scope="module")
def hits() -> list[Hit]:
    return [hit for text in read_all_texts() for hit in find_hits(text)]


@pytest.mark.parametrize("area", list_areas())
def test_an_area_uses_plain_english(area: str, hits: list[Hit]) -> None:
    assert [str(hit) for hit in hits if name_area(hit.file) == area] == []


def test_an_exemption_is_still_needed() -> None:
    unused = [
        (file, part)
        for file, part in EXEMPT
        if not any(text.file == file and part in text.content for text in read_all_texts())
    ]
    assert unused == []


@pytest.mark.parametrize(
    "content",
    [
        "tells the head",
        "files of ours",
        "the next run takes it back",
        "cluster.up mends it",
        "the host is no Spark",
        "there is no recipe 'x'",
        "--every is 0.1 s at least, not 0s",
        "a whole number from 1",
        "see case C37 (facts/links.md)",
    ],
)
def test_a_banned_word_is_found(content: str) -> None:
    assert list(find_hits(Text(file="x.py", line=1, content=content)))


@pytest.mark.parametrize(
    "content",
    ["is no longer running", "is no shorter than", "there is no cable", "brings the cluster up"],
)
def test_plain_english_passes(content: str) -> None:
    assert list(find_hits(Text(file="x.py", line=1, content=content))) == []


def print_report(areas: list[str]) -> None:
    """Print each hit of the areas (all without one), then the count of each area."""
    hits = [
        hit
        for text in read_all_texts()
        if not areas or any(text.file.startswith(area) for area in areas)
        for hit in find_hits(text)
    ]
    for hit in hits:
        sys.stdout.write(f"{hit}\n")
    for area, count in sorted(Counter(name_area(hit.file) for hit in hits).items()):
        sys.stderr.write(f"{count:5} {area}\n")


if __name__ == "__main__":
    print_report(sys.argv[1:])

"""Placeholders in commands: ``{max_model_len}`` and doubled braces."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.errors import RecipeError
from sparkfleet.recipes.foreign.words import Word, split_raw_word
from sparkfleet.spelling import suggest_similar
from sparkfleet.yaml.nodes import Node

BRACES = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}|[{}]")
NAME = re.compile(r"\{([A-Za-z_]\w*)\}")
MAX_ROUNDS = 8  # of values that hold placeholders themselves
MAX_TEXT = 1_000_000  # characters that all values together may fill in


@dataclass(frozen=True, slots=True)
class ExpandedWord:
    """A word of the expanded command; `place` is the default it comes from, else the word."""

    text: str
    place: Node


class CommandTemplate:
    """Expands the words of one command; `unknown` and `used` are names that it met.

    A `strict` one is Python's ``str.format``: one pass, where an unknown name is an error. Others
    fill repeatedly and leave unknown names as they are.
    """

    def __init__(self, values: Mapping[str, Node], *, strict: bool, doubled: bool) -> None:
        self.used: dict[str, int] = {}
        self.unknown: dict[str, Word] = {}
        self._values = values
        self._strict = strict
        self._doubled = doubled
        self._filled = 0

    def expand(self, word: Word) -> list[ExpandedWord]:
        """Return what a word becomes: several words where a value without quotes has blanks."""
        text = self._fill(word)
        sole = NAME.fullmatch(word.raw.strip("'\""))
        place: Node = word.place
        if sole and sole[1] in self._values:
            place = self._values[sole[1]]
        return [ExpandedWord(text=part, place=place) for part in split_raw_word(word, text)]

    def _fill(self, word: Word) -> str:
        if self._doubled:
            text = BRACES.sub(lambda match: self._replace(match, word), word.raw)
        else:
            text = NAME.sub(lambda match: self._get_value(match, word), word.raw)
        rounds = 0 if self._strict else MAX_ROUNDS
        while rounds and any(name in self._values for name in NAME.findall(text)):
            text = NAME.sub(lambda match: self._get_value(match, word), text)
            rounds -= 1
        return text

    def _replace(self, match: re.Match[str], word: Word) -> str:
        if match.group() in ("{{", "}}"):
            return match.group()[0]
        if match[1] is not None:
            return self._get_value(match, word)
        if self._strict:
            raise RecipeError(
                f"{word.raw}: a single {match.group()} in the command",
                where=word.place.where,
                hint="double it where it is meant as text: {{ and }}",
            )
        return match.group()

    def _get_value(self, match: re.Match[str], word: Word) -> str:
        name = match[1]
        node = self._values.get(name)
        if node is not None and node.data is not None:
            self.used[name] = self.used.get(name, 0) + 1
            text = format_scalar(node.data)
            self._filled += len(text)
            if self._filled > MAX_TEXT:
                raise RecipeError(
                    f"values fill in more than {MAX_TEXT:,} characters",
                    where=node.where,
                    hint=f"does {{{name}}} refer to itself?",
                )
            return text
        if self._strict:
            raise RecipeError(
                f"the command uses {{{name}}}, which has no value",
                where=word.place.where,
                hint=suggest_similar(name, self._values),
            )
        self.unknown.setdefault(name, word)
        return match.group()


def format_scalar(data: object) -> str:
    """Return a value as Python's ``str`` writes it, which both tools use; a mapping as JSON."""
    return json.dumps(data, separators=(",", ":")) if isinstance(data, dict | list) else str(data)

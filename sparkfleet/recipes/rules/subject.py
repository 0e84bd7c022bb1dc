"""What a rule looks at: a recipe with its settings on one host, and what else is known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.errors import Where
from sparkfleet.model import EMPTY
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.rules.images import ImageReference, parse_image_reference
from sparkfleet.recipes.settings import Settings


def find_no_owner(_flag: str) -> str:
    """Return that an option is the user's."""
    return ""


SHORT = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "q": "quantization"}
SHORT |= {"n": "nnodes", "r": "node-rank", "dp": "data-parallel-size"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedFacts:
    """What is known beyond the files; empty where nobody looked.

    `vllm` is the version that will run, as `source` tells; `packages` are versions of others beside
    it, by distribution. `options` are those of its `vllm serve` and `variables` those of the
    environment that it reads, both from its own source. `format`, `architecture` and `code` are
    what the checkpoint's own config.json says; `code` are repositories whose Python it needs.
    """

    vllm: str = ""
    source: str = "installed"
    format: str = ""
    architecture: str = ""
    code: Collection[str] = ()
    packages: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    options: Collection[str] = ()
    variables: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of `vllm serve`: `name` without dashes, `written` as the recipe has it."""

    name: str
    written: str
    value: Any
    where: Where

    @property
    def flag(self) -> str:
        """The option as a command line has it, by its long name."""
        return f"--{self.name}"

    @property
    def written_flag(self) -> str:
        """The option as a command line has it, by the name that is written."""
        return self.written if self.written.startswith("-") else f"--{self.written}"

    def __str__(self) -> str:
        if self.value is True:
            return self.flag
        return f"{self.flag} {format_option_value(self.value)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContext:
    """A recipe on one host.

    `every` holds all options, also those given twice or as null; `decided_by` tells what sets an
    option that is sparkfleet's own, "" for any other; `tp` is the tensor-parallel size.
    """

    recipe: Recipe
    settings: Settings
    all_options: Sequence[Option] = ()
    facts: ObservedFacts = field(default_factory=ObservedFacts)
    decided_by: Callable[[str], str] = find_no_owner  # of a word of a command line
    tp: int = 1

    def option(self, name: str) -> Option | None:
        """Return an option that is set, or None; the last one counts, as in vLLM."""
        matches = [
            option
            for option in self.all_options
            if option.name == name and option.value is not None
        ]
        return matches[-1] if matches else None

    def value(self, name: str) -> str:
        """Return an option's value as lower-case text; "" where it is not set."""
        option = self.option(name)
        return "" if option is None else str(option.value).lower()

    def enabled_option(self, name: str) -> Option | None:
        """Return an option that is switched on, or None."""
        option = self.option(name)
        return option if option is not None and option.value is not False else None

    @property
    def model(self) -> str:
        """The model's name in lower case: the hub id, or the folder."""
        return self.settings.text("vllm_model").lower()

    @property
    def format(self) -> str:
        """How the weights are quantized, in lower case; "" where neither files nor recipe say."""
        checkpoint = self.recipe.checkpoint
        declared = (checkpoint.format or "") if checkpoint else ""
        return (self.facts.format or declared).lower()

    @property
    def architecture(self) -> str:
        """The class of the model, as its config.json names it; "" where neither says."""
        checkpoint = self.recipe.checkpoint
        return self.facts.architecture or (checkpoint.architecture or "" if checkpoint else "")

    @property
    def environment(self) -> Mapping[str, Any]:
        """The variables of every rank that the recipe sets."""
        return self.settings.mapping("vllm_env")

    @property
    def image(self) -> ImageReference:
        """The image that shall run; empty for an engine of the host."""
        native = self.settings.text("engine") == "native" or self.settings.text("engine_venv")
        return parse_image_reference("" if native else self.settings.text("engine_image"))

    @property
    def version(self) -> str:
        """The version of vLLM that will run: what was found, or what the image is known for."""
        return self.facts.vllm or self.image.vllm

    @property
    def version_source(self) -> str:
        """Where the version is from, for a message."""
        return self.facts.source if self.facts.vllm else f"in {self.image}"

    @property
    def draft(self) -> Mapping[str, Any]:
        """How tokens are guessed ahead (--speculative-config); empty for not at all."""
        option = self.option("speculative-config")
        return {} if option is None else parse_mapping(option.value)

    def at(self, *names: str) -> Where:
        """Return the place of the first of some variables, options or keys that is there."""
        for name in names:
            if name in self.recipe.places and name not in self.settings.host.vars:
                return self.recipe.places[name]
            option = next(
                (candidate for candidate in self.all_options if candidate.name == name), None
            )
            if option is not None:
                return option.where
            if name in self.environment:
                return self.settings.origin("vllm_env", name)
            if name in self.settings.host.vars:
                return self.settings.origin(name)
        return next(iter(self.recipe.places.values()), Where(file=str(self.recipe.path)))


def build_rule_context(
    recipe: Recipe,
    settings: Settings,
    *,
    facts: ObservedFacts | None = None,
    decided_by: Callable[[str], str] = find_no_owner,
    tp: int = 1,
) -> RuleContext:
    """Return what the rules look at."""
    return RuleContext(
        recipe=recipe,
        settings=settings,
        all_options=(*_list_named_options(settings), *_list_raw_options(settings)),
        facts=facts or ObservedFacts(),
        decided_by=decided_by,
        tp=tp,
    )


def parse_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping, or the one that a text of JSON is; empty for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, Mapping) else {}


def format_option_value(value: Any) -> str:
    """Return a value as a message quotes it."""
    return json.dumps(value, default=str) if isinstance(value, Mapping | list) else str(value)


def _list_named_options(settings: Settings) -> Iterator[Option]:
    for written, value in settings.mapping("vllm_args").items():
        where = settings.origin("vllm_args", written)
        name = _normalize_option_name(str(written))
        yield Option(name=name, written=str(written), value=value, where=where)


def _list_raw_options(settings: Settings) -> Iterator[Option]:
    """Yield the options among the words of `vllm_raw_args`."""
    arguments = [str(argument) for argument in settings.host.get("vllm_raw_args") or ()]
    where = settings.origin("vllm_raw_args")
    for argument, following in zip(arguments, [*arguments, "-"][1:], strict=True):
        if not re.match(r"--?[A-Za-z]", argument):
            continue
        head, equals, value = argument.partition("=")
        given: Any = value if equals else (True if following.startswith("-") else following)
        yield Option(name=_normalize_option_name(head), written=head, value=given, where=where)


def _normalize_option_name(text: str) -> str:
    name = text.lstrip("-").replace("_", "-")
    return SHORT.get(name, name)

"""The input of the rules: a recipe with its settings on one host, and observed facts."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.errors import Where
from sparkfleet.model import EMPTY
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.rules.images import ImageReference, parse_image_reference
from sparkfleet.recipes.settings import Settings
from sparkfleet.vllm.options import VllmOption, VllmOptions, parse_json_object


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """The values of a checkpoint's config.json that rules compare with options; None is unknown.

    `dense` is whether it has no experts, `hybrid` whether layers have a state of fixed size,
    `sparse` whether its MLA has an index. `encoder_heads` are those of its encoder of images, and
    `draft_vocab` is the vocabulary of the draft model that is staged with it, and `draft_block`
    the tokens that a DSpark draft proposes at once.
    """

    model_type: str = ""
    dtype: str = ""
    heads: int | None = None
    kv_heads: int | None = None
    head_sizes: tuple[int, ...] = ()
    vocab: int | None = None
    dense: bool = False
    hybrid: bool = False
    sparse: bool = False
    encoder_heads: int | None = None
    draft_vocab: int | None = None
    draft_block: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFacts:
    """The values of an adapter's adapter_config.json; `saved` are its modules_to_save."""

    rank: int | None = None
    dora: bool = False
    bias: str = ""
    saved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedFacts:
    """Facts beyond the files; empty where the host was not inspected.

    `vllm` is the version that will run, as `source` says; `packages` are versions of other
    distributions with it. `options` are those of its `vllm serve`, `types` how it converts the text
    of some, `values` the lists that some of them choose from, and `variables` those of the
    environment that it reads, all from its own source. `format`, `architecture` and `code` are what
    the checkpoint's own config.json says; `code` are repositories whose Python it needs, and
    `latent` is whether it has multi-head latent attention (MLA), None where that is not known.
    `checkpoint` has further values of it. `files` are the names of the files in the model's folder,
    None where they are not known, and `adapters` are by the paths that --lora-modules has.
    """

    vllm: str = ""
    source: str = "installed"
    format: str = ""
    architecture: str = ""
    code: Collection[str] = ()
    latent: bool | None = None
    checkpoint: CheckpointFacts = field(default_factory=CheckpointFacts)
    files: Collection[str] | None = None
    adapters: Mapping[str, AdapterFacts] = field(default_factory=lambda: EMPTY)
    packages: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    options: Collection[str] = ()
    types: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    values: Mapping[str, Collection[str]] = field(default_factory=lambda: EMPTY)
    variables: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContext:
    """A recipe on one host, with the sizes of `--tp`, `--pp` and, where it is known, `--dp`."""

    recipe: Recipe
    settings: Settings
    vllm_options: VllmOptions = field(default_factory=VllmOptions)
    facts: ObservedFacts = field(default_factory=ObservedFacts)
    tp: int = 1
    pp: int = 1
    dp: int | None = None

    def option(self, name: str) -> VllmOption | None:
        """Return an option with the value that vLLM takes, or None where it is not set."""
        return self.vllm_options.find(name)

    def value(self, name: str) -> str:
        """Return an option's value as lower-case text; "" where it is not set."""
        option = self.option(name)
        return "" if option is None else str(option.value).lower()

    def enabled_option(self, name: str) -> VllmOption | None:
        """Return an option that is switched on, or None."""
        option = self.option(name)
        return option if option is not None and option.value is not False else None

    @property
    def model(self) -> str:
        """The model's name in lower case: the hub id, or the folder."""
        return self.settings.text("vllm_model").lower()

    @property
    def format(self) -> str:
        """The quantization of the weights, in lower case; "" where neither files nor recipe say."""
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
        """The source of the version, for a message."""
        return self.facts.source if self.facts.vllm else f"in {self.image}"

    @property
    def draft(self) -> Mapping[str, Any]:
        """The speculative decoding (--speculative-config); empty for none."""
        return parse_json_object(self.vllm_options.speculative_config)

    def at(self, *names: str) -> Where:
        """Return the place of the first of some variables, options or keys that is there."""
        for name in names:
            if name in self.recipe.places and name not in self.settings.host.vars:
                return self.recipe.places[name]
            option = next(
                (candidate for candidate in self.vllm_options if candidate.name == name), None
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
    tp: int = 1,
    pp: int = 1,
    dp: int | None = None,
) -> RuleContext:
    """Return what the rules look at."""
    return RuleContext(
        recipe=recipe,
        settings=settings,
        vllm_options=settings.vllm_options,
        facts=facts or ObservedFacts(),
        tp=tp,
        pp=pp,
        dp=dp,
    )


def format_option_value(value: Any) -> str:
    """Return a value as a message quotes it."""
    return json.dumps(value, default=str) if isinstance(value, Mapping | list) else str(value)

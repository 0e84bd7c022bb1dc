"""Options of `recipes.*`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparkfleet.cli.options import Options, choice, flag, number, option, parse_path
from sparkfleet.fit.options import parse_memory_fraction, parse_token_limit

LIST_GROUPS = ("family", "sparks")
PURPOSE_NAMES = ("coding", "chat", "vision", "long-context", "throughput")
EXPORT_TARGETS = ("eugr", "sparkrun")


def parse_tokens(name: str, text: str) -> int | None:
    """Return a number of tokens, such as 65536 or 64K; raises InputError."""
    return parse_token_limit(f"--{name}", text)


def parse_longest(name: str, text: str) -> int | str:
    """Return a number of tokens, or ``auto``, the longest that fits; raises InputError."""
    return parse_tokens(name, text) or "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(Options):
    """Options of `recipes.list`."""

    search: str = option("only recipes with this text in name, model or description", default="")
    fits: bool = flag("only recipes that fit, or may fit, the Sparks of the inventory")
    group: str = option(
        "family or sparks: what groups the table", choice(LIST_GROUPS), default="family"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeOptions(Options):
    """Options of `recipes.show`."""

    recipe: str = option(
        "a recipe of recipes.list, a file, or a model, ORG/MODEL",
        default="",
        name="name",
        positional=True,
        value="RECIPE",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions(Options):
    """Options of `recipes.validate`."""

    names: str = option(
        "recipes, files or folders, with commas; `all` is the whole catalogue",
        default="",
        positional=True,
        value="RECIPE",
    )
    vllm: str = option(
        "the version that will run; by default the one that the image is known to have",
        default="",
        value="VERSION",
    )
    folder: Path | None = option(
        "also compare with the config.json in this local folder",
        parse_path,
        value="FOLDER",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOptions(Options):
    """Options of `recipes.new`."""

    model: str = option(
        "a model of the Hub: ORG/MODEL", default="", positional=True, value="ORG/MODEL"
    )
    out: Path | None = option(
        "the file to write; by default playbooks/recipes/MODEL.yml", parse_path, value="FILE"
    )
    folder: Path | None = option(
        "read the model in this local folder, not on the Hub", parse_path, value="FOLDER"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions(Options):
    """Options of `recipes.fit`."""

    recipe: str = option(
        "what to serve: a name from recipes.list, a file, or a model, ORG/MODEL",
        default="",
        positional=True,
        value="RECIPE",
    )
    max_model_len: int | str | None = option(
        "longest sequence, tokens: 65536, 64K, auto", parse_longest, value="TOKENS"
    )
    max_num_seqs: int | None = option("sequences at once", number())
    util: float | None = option(
        "fraction of each node's memory: gpu-memory-utilization",
        lambda name, text: parse_memory_fraction(f"--{name}", text),
        value="FRACTION",
    )
    requests: int = option("concurrent answers to estimate the speed for", number(), default=1)
    context: int | None = option(
        "tokens in the cache of each to estimate the speed for", parse_tokens, value="TOKENS"
    )
    folder: Path | None = option("read the model in this local folder", parse_path, value="FOLDER")
    staged: bool = flag("read the model that is staged on the head, and the memory of every host")
    hub: bool = flag("read config.json and headers of the tensors from the Hub")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions(Options):
    """Options of `recipes.import`."""

    source: str = option(
        "a recipe of eugr, sparkrun, spark-pulse or NVIDIA, or a folder of them",
        default="",
        positional=True,
        value="FILE",
    )
    name: str = option("name of the recipe; by default that of the file", default="", value="NAME")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions(Options):
    """Options of `recipes.export`."""

    recipe: str = option(
        "a recipe of recipes.list, or a file", default="", positional=True, value="RECIPE"
    )
    to: str = option("eugr or sparkrun", choice(EXPORT_TARGETS), default="eugr")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestOptions(Options):
    """Options of `recipes.suggest`."""

    purpose: str = option(
        "coding, chat, vision, long-context or throughput",
        choice(PURPOSE_NAMES),
        default="",
        positional=True,
    )
    most: int = option("how many candidates to show", number(), default=8)
    measured: bool = flag("also read from the head what serve.bench measured there")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOptions(Options):
    """Options of `recipes.add`."""

    source: str = option(
        "a git repository (address or path), or a folder with recipes", default="", positional=True
    )
    name: str = option("name of the shelf; by default the last part of the source", default="")
    revision: str = option("branch, tag or commit; by default the default branch", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOptions(Options):
    """Options of `recipes.update`."""

    name: str = option("the shelf", default="", positional=True)
    revision: str = option("branch, tag or commit; by default that of recipes.add", default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOptions(Options):
    """Options of `recipes.remove`."""

    name: str = option("the shelf", default="", positional=True)

"""`recipes.*`: the catalogue, what a recipe means, and what it takes; offline unless asked."""

from __future__ import annotations

from typing import Any

from sparkfleet.cli.command import command

REPEATED = ["inventory", "set"]


@command(name="list")
def listing(
    context: Any,
    *,
    output: str | None = None,
) -> int:
    """Show every recipe: its model, how many Sparks it is for, its size, its best published speed.

    Yours in playbooks/recipes/ come first and hide shipped ones of the same name.
    """
    from sparkfleet.cli.options import parse_options  # noqa: PLC0415 - not for --list
    from sparkfleet.cli.recipes.list import show_recipes  # noqa: PLC0415 - the same

    return show_recipes(parse_options("recipes.list", locals()))


@command(
    iterable=REPEATED,
    positional=["name"],
    help={"name": "a recipe of recipes.list, or a file"},
)
def show(
    context: Any,
    name: str,
    *,
    inventory: Any = None,
    cluster: str | None = None,
    set: Any = None,  # noqa: A002 - the option's name
    output: str | None = None,
) -> int:
    """Explain a recipe: every value, what it means, why it is there and which line set it.

    With --inventory or --set also what those put in the place of the recipe's own. From weak to
    strong: recipe, cluster, host, command line.

      {task:recipes.show} gpt-oss-120b
      {task:recipes.show} my.yml --inventory inventories/pair.yml --set vllm_port=8001
    """
    from sparkfleet.cli.options import parse_options  # noqa: PLC0415 - not for --list
    from sparkfleet.cli.recipes.show import show_recipe  # noqa: PLC0415 - the same

    return show_recipe(parse_options("recipes.show", {**locals(), "recipe": name}))


@command(
    positional=["names"],
    help={
        "names": "recipes, files or folders, with commas; `all` is the whole catalogue",
        "vllm": "the version that will run; unset: what the image is known for",
    },
)
def validate(
    context: Any,
    names: str,
    *,
    tp: str | None = None,
    vllm: str | None = None,
    output: str | None = None,
) -> int:
    """Check recipes against the documented mistakes; nothing is started and no host is asked.

    Every finding has its place, its reason and the document that says so (docs/recipe-rules.md).
    The exit code is 5 if a start would be refused. cluster.up runs the same rules, with the vLLM
    that it finds on the hosts.

      {task:recipes.validate} all
      {task:recipes.validate} my.yml --vllm 0.21.0
    """
    from sparkfleet.cli.options import parse_options  # noqa: PLC0415 - not for --list
    from sparkfleet.cli.recipes.validate import show_findings  # noqa: PLC0415 - the same

    return show_findings(parse_options("recipes.validate", locals()), names, vllm or "")


@command(
    positional=["recipe"],
    iterable=REPEATED,
    help={
        "max-model-len": "longest sequence, tokens: 65536, 64K",
        "max-num-seqs": "sequences at once",
        "util": "fraction of each node's memory: gpu-memory-utilization",
        "requests": "answers at once that the speed is told for",
        "context": "tokens in the cache of each that the speed is told for",
        "folder": "read the model in this folder of this machine",
        "staged": "read the model that is staged on the head, and the memory of every host",
        "hub": "read config.json and headers of the tensors from the Hub",
    },
)
def fit(  # noqa: PLR0913 - the options of a task
    context_: Any,
    recipe: str,
    *,
    tp: str | None = None,
    pp: str | None = None,
    max_model_len: str | None = None,
    max_num_seqs: str | None = None,
    util: str | None = None,
    requests: str | None = None,
    context: str | None = None,
    folder: str | None = None,
    staged: bool = False,
    hub: bool = False,
    inventory: Any = None,
    cluster: str | None = None,
    limit: str | None = None,
    set: Any = None,  # noqa: A002 - the option's name
    output: str | None = None,
) -> int:
    """Tell whether a recipe fits, how long a context, how many at once, and how fast at most.

    Without --folder, --staged or --hub nothing but the recipe and a local weights_source is read,
    no host and no network; what cannot be told then is said. Exit 2 if it does not fit.

      {task:recipes.fit} gemma4-26b-a4b-nvfp4 --hub
      {task:recipes.fit} gemma4-31b-fp8 --tp 2 --staged
    """
    from sparkfleet.cli.recipes.fit import FitRequest, show_fit  # noqa: PLC0415 - not for --list

    return show_fit(FitRequest.from_options(locals()))

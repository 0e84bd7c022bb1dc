"""`recipes.*`: the catalogue, what a recipe means and needs; offline unless asked otherwise."""

from __future__ import annotations

from sparkfleet.cli.command import command
from sparkfleet.cli.options import CHECK, CLUSTER, CONFIRM, HOSTS, OUTPUT
from sparkfleet.cli.recipes.options import (
    AddOptions,
    ExportOptions,
    FitOptions,
    ImportOptions,
    ListOptions,
    NewOptions,
    RecipeOptions,
    RemoveOptions,
    SuggestOptions,
    UpdateOptions,
    ValidateOptions,
)

TP = ("tp",)
PP = ("pp",)
TP_HELP = "tensor-parallel size; by default the smallest that the recipe supports"


@command("recipes.list", CLUSTER, OUTPUT)
def show_list(options: ListOptions) -> int:
    """Show every recipe: its model, how many Sparks it is for, its size, its best published speed.

    Recipes are in families, the newest first; the date is the one that the recipe's source names.
    Yours in playbooks/recipes/ hide shipped ones of the same name. A narrow terminal gets fewer
    columns. --fits asks no host: what a source measured on so many Sparks fits there, the rest is
    estimated from the recipe's figures for idle Sparks.

      {task:recipes.list} --search qwen3.8
      {task:recipes.list} --fits --group sparks
    """
    from sparkfleet.cli.recipes.list import show_recipes

    return show_recipes(options)


@command("recipes.show", CLUSTER, OUTPUT)
def show(options: RecipeOptions) -> int:
    """Explain a recipe: every value, what it means, why it is there and which line set it.

    With --inventory or --set also the values that replace the recipe's own. From weak to strong:
    recipe, cluster, host, command line.

      {task:recipes.show} gpt-oss-120b
      {task:recipes.show} my.yml --inventory inventories/pair.yml --set vllm_port=8001
    """
    from sparkfleet.cli.recipes.show import show_recipe

    return show_recipe(options)


@command("recipes.validate", TP, PP, OUTPUT, help={"tp": TP_HELP})
def validate(options: ValidateOptions) -> int:
    """Check recipes against the documented mistakes; starts nothing and connects to no host.

    Every finding has its place, its reason and the document that says so (docs/recipe-rules.md).
    The exit code is 5 if a start would be refused. cluster.up runs the same rules, with the vLLM
    that it finds on the hosts. With --folder the model's config.json is compared too: its heads,
    layers, blocks and positions, and what it has that options refuse.

      {task:recipes.validate} all
      {task:recipes.validate} my.yml --vllm 0.21.0
      {task:recipes.validate} my.yml --tp 4 --folder ~/models/qwen3
    """
    from sparkfleet.cli.recipes.validate import show_findings

    return show_findings(options)


@command("recipes.suggest", CLUSTER, OUTPUT)
def suggest(options: SuggestOptions) -> int:
    """Suggest recipes for a purpose that fit the Sparks of the inventory, with their speeds.

    Speeds on one Spark, as two copies and with tensor parallelism are published, or measured here
    with serve.bench (--measured); none is estimated. Ends with the command for each. Exits with 2
    if no recipe fits.

      {task:recipes.suggest} coding
      {task:recipes.suggest} throughput --inventory inventories/pair.yml --measured
    """
    from sparkfleet.cli.recipes.suggest import show_suggestions

    return show_suggestions(options)


@command("recipes.fit", TP, PP, HOSTS, OUTPUT, help={"tp": TP_HELP})
def fit(options: FitOptions) -> int:
    """Estimate memory, context length, concurrency and speed of a recipe.

    Without --folder, --staged or --hub only the recipe and a local weights_source are read, no
    host and no network; the output says what is unknown then. Exits with 2 if it does not fit.

      {task:recipes.fit} gemma4-26b-a4b-nvfp4 --hub
      {task:recipes.fit} gemma4-31b-fp8 --tp 2 --staged
      {task:recipes.fit} ORG/MODEL                        a model without a recipe, from the Hub
    """
    from sparkfleet.cli.recipes.fitting.fit import show_fit
    from sparkfleet.cli.recipes.fitting.values import FitRequest

    return show_fit(FitRequest.from_options(options))


@command("recipes.new")
def new(options: NewOptions) -> int:
    """Write a recipe for a model of the Hub, from its config.json and the headers of its tensors.

    Its format, the parsers that vLLM's documents name for it, how many Sparks it needs and the
    longest context that fits there. A file that exists is not overwritten.

      {task:recipes.new} Qwen/Qwen3-32B
      {task:recipes.new} ORG/MODEL --folder ~/models/MODEL --out my.yml
    """
    from sparkfleet.cli.recipes.new import write_recipe

    return write_recipe(options)


@command(
    "recipes.import",
    CHECK,
    CONFIRM,
    OUTPUT,
    help={
        "check": "show what would be written, and write nothing",
        "yes": "import mods, which run as root in the image, without asking",
    },
)
def import_recipes(options: ImportOptions) -> int:
    """Convert recipes of eugr, sparkrun, spark-pulse or NVIDIA into playbooks/recipes/.

    Shows every value with its line in their file, what has no counterpart, and the whole text of
    the mods, which are copied with it. --recipe FILE uses such a file without an import.

      {task:recipes.import} ../spark-vllm-docker/recipes/qwen3.8-27b.yaml --check
      {task:recipes.import} ../local-ai-inference-recipes/models/minimax
    """
    from sparkfleet.cli.recipes.importing import import_recipe_files

    return import_recipe_files(options)


@command("recipes.export", OUTPUT)
def export(options: ExportOptions) -> int:
    """Print a recipe in the format of eugr or sparkrun, and what that format cannot express.

    {task:recipes.export} qwen3.8-27b-nvfp4 --to sparkrun > qwen3.8-27b.yaml
    """
    from sparkfleet.cli.recipes.export import show_export

    return show_export(options)


@command(
    "recipes.add",
    CHECK,
    OUTPUT,
    help={"check": "show what would be added, and write nothing"},
)
def add(options: AddOptions) -> int:
    """Add a shelf: the recipes of a git repository or a folder, kept here at one commit.

    They are listed as NAME/RECIPE and change only with recipes.update. Recipes of eugr, sparkrun,
    spark-pulse and NVIDIA count too. Nothing of a shelf is run here; what a recipe of it runs on
    the hosts is shown before a start. The network is used only now, by the system's git.

      {task:recipes.add} ../spark-vllm-docker
      {task:recipes.add} ~/team-recipes --name team --revision main
    """
    from sparkfleet.cli.recipes.shelves import add_shelf

    return add_shelf(options)


@command(
    "recipes.update",
    CHECK,
    CONFIRM,
    OUTPUT,
    help={
        "check": "show the difference, and change nothing",
        "yes": "accept the changes without asking",
    },
)
def update(options: UpdateOptions) -> int:
    """Show what changed at the source of a shelf, and accept it if you confirm.

    {task:recipes.update} team --check
    """
    from sparkfleet.cli.recipes.shelves import update_shelf

    return update_shelf(options)


@command("recipes.remove")
def remove(options: RemoveOptions) -> int:
    """Remove a shelf from the project.

    {task:recipes.remove} team
    """
    from sparkfleet.cli.recipes.shelves import drop_shelf

    return drop_shelf(options)

"""Recipes of eugr/spark-vllm-docker: run-recipe.py of its README of 2026-09-15.

spark-pulse keeps recipes of this form too; there, a file without a version is version 1
(schemas/recipe-v1.schema.json of kharkevich-engineering-lab/spark-pulse-recipes).
"""

from __future__ import annotations

from sparkfleet.errors import RecipeError
from sparkfleet.recipes.foreign.draft import RecipeDraft, build_entry
from sparkfleet.recipes.foreign.fields import FieldReader
from sparkfleet.recipes.foreign.placeholders import CommandTemplate
from sparkfleet.recipes.foreign.serve import (
    ServeCommand,
    make_part,
    note_others,
    put_environment,
    put_options,
    read_serve_command,
    set_model,
)
from sparkfleet.yaml.nodes import Node, Scalar

LAUNCHER_ENV = {  # launch-cluster.sh sets these in every container
    "NCCL_IGNORE_CPU_AFFINITY": "1",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
}
PUBLISHED = {  # local tags, and where the same image is published each night
    "vllm-node": ("eugr/spark-vllm:latest", ()),
    "vllm-node-b12x": ("eugr/spark-vllm-b12x:latest", ("--exp-b12x",)),
}
TENSOR_PARALLEL = "tensor_parallel"


def convert_eugr_recipe(draft: RecipeDraft) -> None:
    """Convert the file; raises RecipeError with what is missing or of a wrong type."""
    fields = FieldReader(draft.tree)
    version = fields.text("recipe_version")
    name = fields.text("name", needed=True)
    container = fields.text("container", needed=True)
    command_node = fields.text("command", needed=True)
    description = fields.text("description")
    model = fields.text("model")
    defaults = fields.entries("defaults")
    env = fields.entries("env")
    mods = fields.texts("mods")
    build_args = fields.texts("build_args")
    cluster_only = fields.flag("cluster_only")
    solo_only = fields.flag("solo_only")
    fields.raise_problems()
    if name is None or container is None or command_node is None:
        return
    if version is None:
        draft.note("recipe_version is missing, and is read as 1", draft.tree)
    title = description or name
    draft.set("description", str(title.data).strip(), title)
    if solo_only:
        defaults = {**defaults, TENSOR_PARALLEL: _build_solo_size(defaults, draft.tree)}
    template = CommandTemplate(defaults, strict=True, doubled=True)
    command = read_serve_command(command_node, template)
    set_model(draft, command, model)
    put_image(draft, container, build_args)
    for mod in mods:
        draft.append("engine_mods", str(mod.data), mod)
    put_options(draft, command)
    _drop_ray(draft)
    put_environment(draft, {key: make_part(node) for key, node in env.items()} | command.env)
    _put_launcher_environment(draft, container, solo_only=solo_only)
    put_size(draft, command, template, cluster_only=cluster_only, solo_only=solo_only)
    note_others(draft, command)
    for key in fields.list_unknown(["pull_image"]):
        draft.note(f"{key.data} is not a key of eugr's recipes, and is left out", key)


def _build_solo_size(defaults: dict[str, Node], tree: Node) -> Scalar:
    """Return the size 1 at the place where the file sets it, or of the file."""
    place = defaults.get(TENSOR_PARALLEL, tree)
    return Scalar(source=place.source, line=place.line, col=place.col, value=1)


def put_image(draft: RecipeDraft, container: Scalar, build_args: tuple[Scalar, ...]) -> None:
    """Set the image: the published one where the local tag is known, and the tag otherwise."""
    tag = str(container.data)
    image, usual = PUBLISHED.get(tag, (tag, ()))
    changed = [arg for arg in build_args if arg.data not in usual]
    if changed:
        image = tag
        words = " ".join(str(arg.data) for arg in build_args)
        draft.note(
            f"the image {tag} is not published: build-and-copy.sh {words} makes it", changed[0]
        )
    elif image != tag:
        draft.note(f"the local image {tag} is published as {image}", container)
    elif "/" not in tag:
        draft.note(f"the image {tag} exists only where it was built", container)
    if image != tag or tag.endswith((":latest", ":nightly")):
        draft.note(f"{image} is a moving tag: pin NAME@sha256:DIGEST once it works", container)
    draft.set("engine_image", image, container)


def _drop_ray(draft: RecipeDraft) -> None:
    """Leave the executor to the size: since 2026-07-01 the launcher removes the option."""
    key_and_value = draft.entries.pop("vllm_executor", None)
    if key_and_value is not None:
        draft.note(
            "--distributed-executor-backend is removed by eugr's launcher unless --ray is given, "
            "and here too",
            key_and_value[1],
            "type: --executor ray",
        )


def _put_launcher_environment(draft: RecipeDraft, container: Scalar, *, solo_only: bool) -> None:
    for name, value in LAUNCHER_ENV.items():
        variable = "nccl_env" if name.startswith("NCCL_") else "vllm_env"
        if variable == "nccl_env" and solo_only:
            continue
        if not draft.has(variable, name):
            draft.put(variable, name, value, container)
    draft.note(
        "eugr's launcher adds " + " and ".join(LAUNCHER_ENV) + ", and so does sparkfleet", container
    )


def put_size(
    draft: RecipeDraft,
    command: ServeCommand,
    template: CommandTemplate,
    *,
    cluster_only: bool,
    solo_only: bool,
) -> None:
    """Set how many Sparks it is for: what the file allows, and what the command asks for."""
    tp = command.size("tensor-parallel-size")
    pp = command.size("pipeline-parallel-size")
    found = command.find("tensor-parallel-size")
    place: Node = draft.tree if found is None else found[1]
    if solo_only:
        if tp * pp > 1:
            raise RecipeError(
                f"solo_only, but the command needs {tp * pp} Sparks", where=place.where
            )
        draft.set("tp_max", 1, place)
        return
    follows = template.used.get(TENSOR_PARALLEL, 0) > 1
    if cluster_only or follows or pp > 1:
        draft.set("tp_min", max(2 if cluster_only else 1, tp * pp), place)
    if tp > 1:
        draft.set("tp_max", tp, place)
        draft.entries.setdefault("vllm_executor", build_entry("vllm_executor", "mp", place))
    if pp > 1:
        draft.note(
            f"pipeline parallelism has no counterpart in a recipe: type --tp {tp} --pp {pp}", place
        )

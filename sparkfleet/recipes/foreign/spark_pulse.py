"""Recipes of spark-pulse, whose schema is recipe-v2.schema.json of spark-pulse-recipes."""

from __future__ import annotations

from sparkfleet.errors import RecipeError, quote_value
from sparkfleet.recipes.foreign.draft import RecipeDraft
from sparkfleet.recipes.foreign.eugr import put_image, put_size
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
from sparkfleet.yaml.nodes import List, Node, Scalar

ENGINE = "vllm"
CHAT = "chat"
PARAMS = {  # the flags that the vLLM engine makes of the neutral parameters
    "port": "port",
    "host": "host",
    "tensor_parallel": "tensor-parallel-size",
    "pipeline_parallel": "pipeline-parallel-size",
    "gpu_memory_utilization": "gpu-memory-utilization",
    "max_model_len": "max-model-len",
    "max_num_batched_tokens": "max-num-batched-tokens",
    "max_num_seqs": "max-num-seqs",
}


def convert_spark_pulse_recipe(draft: RecipeDraft) -> None:
    """Convert the file; raises RecipeError with what is missing or of a wrong type."""
    fields = FieldReader(draft.tree)
    name = fields.text("name", needed=True)
    model = fields.text("model", needed=True)
    description = fields.text("description") or name
    params = fields.entries("params")
    constraints = fields.inner("constraints")
    engine = _read_engine(fields)
    image = engine.text("image", needed=True)
    mods = engine.texts("mods")
    env = engine.entries("env")
    build_args = engine.texts("build_args")
    solo_only = constraints is not None and constraints.flag("solo_only")
    cluster_only = constraints is not None and constraints.flag("cluster_only")
    least = None if constraints is None else constraints.count("min_nodes")
    fields.raise_problems()
    if description is None or model is None or image is None:
        return
    draft.set("description", " ".join(str(description.data).split()), description)
    if solo_only:
        params = {key: node for key, node in params.items() if key != "tensor_parallel"}
    command, template = _read_command(draft, engine, {**params, "model": model})
    set_model(draft, command, model)
    put_image(draft, image, build_args)
    for mod in mods:
        draft.append("engine_mods", str(mod.data), mod)
    put_options(draft, command)
    put_environment(draft, {key: make_part(node) for key, node in env.items()} | command.env)
    cluster = cluster_only or (least is not None and least.data > 1)
    put_size(draft, command, template, cluster_only=cluster, solo_only=solo_only)
    note_others(draft, command)
    _note_params(draft, params, template)
    _note_unknown(draft, fields, engine)


def _read_engine(fields: FieldReader) -> FieldReader:
    """Return the block of vLLM; raises RecipeError where the recipe has only other engines."""
    chosen = fields.text("engine")
    engines = fields.inner("engines")
    serves = fields.text("serves")
    fields.raise_problems()
    if serves is not None and serves.data != CHAT:
        raise RecipeError(
            f"serves: {quote_value(serves.data)} is not served by sparkfleet, only chat models",
            where=serves.where,
        )
    block = None if engines is None else engines.inner(ENGINE)
    if engines is not None:
        engines.raise_problems()
    if block is not None:
        return block
    place = chosen or (None if engines is None else engines.tree) or fields.tree
    if chosen.data == ENGINE if chosen is not None else engines is None:
        raise RecipeError(
            "missing engines.vllm, which has the image",
            where=fields.tree.where,
            hint="write: engines: {vllm: {image: NAME}}",
        )
    raise RecipeError(
        f"engine: expected vllm (got {quote_value(place.data)})",
        where=place.where,
        hint="sparkfleet serves with vLLM only",
    )


def _read_command(
    draft: RecipeDraft, engine: FieldReader, values: dict[str, Node]
) -> tuple[ServeCommand, CommandTemplate]:
    """Return the engine's own command, else the flags of the parameters with its `args`."""
    own = engine.text("command") or FieldReader(draft.tree).text("command")
    template = CommandTemplate(values, strict=False, doubled=True)
    if own is not None:
        return read_serve_command(own, template), template
    command = read_serve_command(_build_args_node(draft, engine), template)
    flags = _build_flags(draft, values)
    made = read_serve_command(flags, template)
    command.places |= made.places
    known = {option.name for option in command.options}
    extra = tuple(option for option in made.options if option.name not in known)
    command.options = type(command.options)((*extra, *command.options))
    return command, template


def _build_flags(draft: RecipeDraft, values: dict[str, Node]) -> Scalar:
    words = [f"--{flag} {{{name}}}" for name, flag in PARAMS.items() if name in values]
    text = " ".join(["vllm serve {model}", *words])
    tree = draft.tree
    return Scalar(source=tree.source, line=tree.line, col=tree.col, value=text)


def _build_args_node(draft: RecipeDraft, engine: FieldReader) -> Scalar:
    """Return `args`, a text or a list of words, as a command at its place."""
    node = engine.tree.get("args")
    place: Node = draft.tree if node is None else node
    text = ""
    if isinstance(node, List):
        text = " ".join(f"'{item.data}'" for item in node.items)
    elif node is not None and isinstance(node.data, str):
        text = node.data
    elif node is not None and node.data is not None:
        raise RecipeError(
            f"engines.vllm.args: expected text or a list (got {quote_value(node.data)})",
            where=node.where,
        )
    return Scalar(
        source=place.source, line=place.line, col=place.col, value=f"vllm serve {{model}} {text}"
    )


def _note_params(draft: RecipeDraft, params: dict[str, Node], template: CommandTemplate) -> None:
    for name, word in template.unknown.items():
        draft.note(f"{{{name}}} has no value, and stays as it is", word.place)
    for name, node in params.items():
        if name not in PARAMS and name not in template.used:
            draft.note(f"params.{name} has no counterpart, and is left out", node)


def _note_unknown(draft: RecipeDraft, fields: FieldReader, engine: FieldReader) -> None:
    for key in (
        *fields.list_unknown(["recipe_version", "command"]),
        *engine.list_unknown(["args"]),
    ):
        draft.note(f"{key.data} is not a key of spark-pulse, and is left out", key)

"""Recipes of sparkrun 0.4.2, of its registries."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sparkfleet.errors import RecipeError, quote_value
from sparkfleet.recipes.foreign.draft import RecipeDraft
from sparkfleet.recipes.foreign.eugr import put_image, put_size
from sparkfleet.recipes.foreign.fields import FieldReader
from sparkfleet.recipes.foreign.overrides import apply_overrides
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
from sparkfleet.vllm.releases import load_release_table
from sparkfleet.yaml.nodes import List, Map, Node, Scalar

RUNTIMES = ("vllm", "vllm-distributed", "vllm-ray")
SILENT = (  # keys that say nothing about a start here
    *("recipe_version", "sparkrun_version", "min_sparkrun_version", "name", "runtime_version"),
    *("mode", "builder", "overrides"),
)
HOOKS = ("pre_exec", "post_exec", "post_commands")
GENERATED = {  # names of defaults that are no options of vLLM
    "tensor_parallel": "tensor-parallel-size",
    "pipeline_parallel": "pipeline-parallel-size",
}
RIGHTS = ("privileged", "user", "entrypoint", "shm_size")


def convert_sparkrun_recipe(draft: RecipeDraft) -> None:
    """Convert the file; raises RecipeError with what is missing or of a wrong type."""
    fields = FieldReader(apply_overrides(draft))
    model = fields.text("model", needed=True)
    container = fields.text("container", needed=True)
    runtime = fields.text("runtime")
    revision = fields.text("model_revision")
    defaults = fields.entries("defaults")
    env = fields.entries("env")
    mods = fields.texts("mods")
    build_args = fields.texts("build_args")
    command_node = fields.text("command")
    least = fields.count("min_nodes")
    most = fields.count("max_nodes")
    solo_only = fields.flag("solo_only") or (most is not None and most.data == 1)
    cluster_only = fields.flag("cluster_only") or (least is not None and least.data > 1)
    fields.inner("metadata")
    fields.raise_problems()
    _check_runtime(runtime, command_node, draft.tree)
    if model is None or container is None:
        return
    _put_description(draft, fields)
    values = {**defaults, "model": model}
    values |= {"model_revision": revision} if revision is not None else {}
    command, template = _read_command(draft, command_node, values)
    set_model(draft, command, model)
    if revision is not None:
        draft.set("weights_revision", str(revision.data), revision)
    put_image(draft, container, build_args)
    for mod in mods:
        draft.append("engine_mods", str(mod.data), mod)
    put_options(draft, command)
    if runtime is not None and runtime.data == "vllm-ray":
        draft.set("vllm_executor", "ray", runtime)
    _pin_drafts(draft, fields)
    put_environment(draft, {key: make_part(node) for key, node in env.items()} | command.env)
    put_size(draft, command, template, cluster_only=cluster_only, solo_only=solo_only)
    _put_most_nodes(draft, most)
    _note_rest(draft, fields, template)
    note_others(draft, command)


def _check_runtime(runtime: Scalar | None, command: Scalar | None, tree: Map) -> None:
    if runtime is not None and runtime.data not in RUNTIMES:
        raise RecipeError(
            f"runtime: expected one of {', '.join(RUNTIMES)} (got {quote_value(runtime.data)})",
            where=runtime.where,
            hint="sparkfleet serves with vLLM only",
        )
    if runtime is None and command is None:
        raise RecipeError(
            "missing runtime and command: one of them says which engine it is",
            where=tree.where,
        )


def _put_description(draft: RecipeDraft, fields: FieldReader) -> None:
    metadata = fields.mapping("metadata")
    inner = metadata.get("description") if metadata is not None else None
    node = fields.text("description") or inner
    if node is not None and isinstance(node.data, str):
        draft.set("description", " ".join(node.data.split()), node)


def _read_command(
    draft: RecipeDraft, node: Scalar | None, values: Mapping[str, Node]
) -> tuple[ServeCommand, CommandTemplate]:
    """Return the command, or the one that sparkrun makes of the defaults."""
    text = _generate_command(draft, values) if node is None else str(node.data)
    if node is None:
        tree = draft.tree
        node = Scalar(source=tree.source, line=tree.line, col=tree.col, value=text)
    template = CommandTemplate(values, strict=False, doubled="{{" in text)
    if "{{" in text:
        draft.note("doubled braces are deprecated in recipes of sparkrun", node)
    return read_serve_command(node, template), template


def _generate_command(draft: RecipeDraft, values: Mapping[str, Node]) -> str:
    known = load_release_table("options").spans
    words = ["vllm serve {model}"]
    for name, node in values.items():
        option = GENERATED.get(name, name.replace("_", "-"))
        if name in ("model", "model_revision"):
            continue
        if option not in known:
            draft.note(f"defaults.{name} is not an option of vLLM, and is left out", node)
        elif node.data is True:
            words.append(f"--{option}")
        elif node.data is not False:
            quoted = f"'{{{name}}}'" if isinstance(node.data, str | dict) else f"{{{name}}}"
            words.append(f"--{option} {quoted}")
    return " ".join(words)


def _pin_drafts(draft: RecipeDraft, fields: FieldReader) -> None:
    """Add the revisions that the file states for the models that it distributes."""
    config = fields.mapping("distribution_config")
    models = config.get("models") if config is not None else None
    if isinstance(models, Map):
        models = models.get("entries")
    for item in models.items if isinstance(models, List) else ():
        if not isinstance(item, Map):
            continue
        name = item.get("name")
        revision = item.get("revision")
        drafts = draft.entries.get("weights_drafts")
        if name is None or drafts is None or name.data not in drafts[1].data:
            continue
        if revision is not None:
            del draft.entries["weights_drafts"]
            draft.append("weights_drafts", f"{name.data}@{revision.data}", revision)


def _put_most_nodes(draft: RecipeDraft, most: Scalar | None) -> None:
    """Keep the smaller of max_nodes and what the command asks for."""
    if most is None:
        return
    least = draft.entries.get("tp_min")
    if least is not None and least[1].data > most.data:
        raise RecipeError(
            f"max_nodes: {most.data} is less than the {least[1].data} Sparks that it needs",
            where=most.where,
        )
    if "tp_max" not in draft.entries:
        draft.set("tp_max", most.data, most)


def _note_rest(draft: RecipeDraft, fields: FieldReader, template: CommandTemplate) -> None:
    for name, word in template.unknown.items():
        draft.note(f"{{{name}}} has no value, and stays as it is", word.place)
    for hook in HOOKS:
        node = fields.tree.get(hook)
        if node is not None and node.data:
            draft.note(
                f"{hook} is left out: {_shorten(node.data)}", node, "engine_mods runs scripts"
            )
    executor = fields.mapping("executor_config")
    for key in executor.names() if executor is not None else ():
        if key.data not in RIGHTS:
            draft.note(f"executor_config.{key.data} has no counterpart", key)
    for key in fields.list_unknown((*SILENT, *HOOKS)):
        draft.note(f"{key.data} has no counterpart, and is left out", key)


def _shorten(data: object) -> str:
    return quote_value(json.dumps(data, ensure_ascii=False, default=str))

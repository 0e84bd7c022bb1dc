"""`recipes.new`: writes a recipe for a model, from what its files say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparkfleet.cli.recipes.options import NewOptions
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.command_name import name_command
from sparkfleet.commands import quote
from sparkfleet.errors import UsageError
from sparkfleet.fit.advice import HOLDS, SIZES, evaluate_fit_at
from sparkfleet.fit.checkpoint import CONFIG, build_model_profile
from sparkfleet.fit.memory import IDLE, Fit, FitAnswer, NodeMemory
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions
from sparkfleet.recipes.recipe import FOLDER, load_recipe
from sparkfleet.recipes.without_recipe import IMAGE, UTILIZATION, is_model_name
from sparkfleet.report.output_files import write_new_file
from sparkfleet.resources import format_path
from sparkfleet.vllm.parsers import find_parsers

USUAL_LENGTH = 131072  # tokens; longer ones are seldom asked for and leave room for few requests
STEP = 1024  # tokens
MIN_CONTEXT = 8192  # tokens; with room for fewer a further Spark is worth it
SEQUENCES = 4  # requests at once, as in the shipped recipes


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """The files of a model; `tp` Sparks hold it, with `length` tokens, None where unknown."""

    name: str
    commit: str
    model: ModelProfile
    tp: int
    length: int | None
    fit: Fit


def write_recipe(options: NewOptions) -> int:
    """Write the file and print what it has; raises UsageError for one that exists."""
    if not is_model_name(options.model):
        raise UsageError(
            f"{options.model!r} is not the name of a model on the Hub",
            hint=f"type: {name_command('recipes.new')} ORG/MODEL",
        )
    name = options.model.rpartition("/")[2].lower()
    path = options.out or Path(FOLDER) / f"{name}.yml"
    if path.suffix not in (".yml", ".yaml"):
        raise UsageError(
            f"--out {path}: a recipe file must end in .yml",
            hint=f"type: --out {path.parent / (path.stem or 'recipe')}.yml",
        )
    if path.exists() or path.is_symlink():
        raise UsageError(
            f"{format_path(path)} already exists",
            hint="name another file: --out FILE.yml",
        )
    summary = _summarize_model(options)
    write_new_file(path, "\n".join([*format_recipe(summary), ""]))
    load_recipe(str(path))  # what was written is valid
    print_lines(*_format_result(summary, path))
    return 0


def _summarize_model(options: NewOptions) -> ModelSummary:
    from sparkfleet.weights import hub, shapes  # noqa: PLC0415 - the Hub's library, where needed

    if options.folder:
        answer = shapes.read_folder_shape(options.folder)
        if CONFIG not in answer["files"]:
            raise UsageError(
                f"{options.folder} is not the folder of a model: no {CONFIG}",
                hint="name the folder that holds config.json and the safetensors shards",
            )
        commit = ""
    else:
        manifest = hub.resolve_manifest(options.model, "main", token=hub.read_token())
        commit = manifest.commit or ""
        answer = shapes.fetch_hub_shape(options.model, commit or "main")
    serve_options = ServeOptions(util=UTILIZATION, sequences=SEQUENCES, auto_length=True)
    model = build_model_profile(answer, serve_options)
    tp, fit = choose_size(model, serve_options)
    return ModelSummary(
        name=options.model,
        commit=commit,
        model=model,
        tp=tp,
        length=choose_length(model, fit),
        fit=fit,
    )


def choose_size(model: ModelProfile, options: ServeOptions) -> tuple[int, Fit]:
    """Return the fewest idle Sparks that hold the model, and how it fits there; else the most."""
    nodes = (NodeMemory(host="a Spark", available=IDLE),)
    for tp in SIZES:
        fit = evaluate_fit_at(model, options, nodes, tp)
        short = fit.longest is not None and fit.longest.low < MIN_CONTEXT
        if fit.answer is FitAnswer.UNKNOWN or (fit.answer in HOLDS and not short):
            return tp, fit
    return tp, fit


def choose_length(model: ModelProfile, fit: Fit) -> int | None:
    """Return the context length, tokens: the model's own, as far as it fits; None if unknown."""
    most = model.shape.context if model.shape else None
    if most is None or fit.longest is None:
        return None
    fitting = int(fit.longest.low) // STEP * STEP
    return min(most, fitting, USUAL_LENGTH) or None


def format_recipe(summary: ModelSummary) -> Iterator[str]:
    """Yield the lines of the file."""
    date = time.strftime("%Y-%m-%d")
    command = f"{name_command('recipes.new')} {summary.name}"
    yield f"# Written by `{command}` from the files of the model."
    yield "# Every value may be changed; docs/recipes.md explains the keys."
    yield f"description: {summary.name}, with vLLM's defaults"
    yield f"source: huggingface.co/{summary.name} ({date})"
    yield f"vllm_model: {summary.name}"
    if summary.commit:
        yield f"weights_revision: {summary.commit}"
    yield f"engine_image: {IMAGE}"
    if summary.tp > 1:
        yield f"tp_min: {summary.tp}"
    if checkpoint := ", ".join(_list_checkpoint(summary.model)):
        yield f"checkpoint: {{{checkpoint}}}"
    yield "vllm_args:"
    for name, value in _list_options(summary):
        yield f"  {name}: {value}"
    yield "why:"
    yield from (f"  {name}: {reason}" for name, reason in _list_reasons(summary))


def _list_checkpoint(model: ModelProfile) -> Iterator[str]:
    shape = model.shape
    if shape:
        method = shape.quantization.get("quant_method")
        yield f"format: {method or ('bf16' if shape.dtype == 'bfloat16' else shape.dtype)}"
    if model.weights and model.weights.stored.high:
        yield f"size: {model.weights.stored.high / 1e9:.1f}GB"
    if shape and shape.name:
        yield f"architecture: {shape.name}"
    if shape:
        yield f"moe: {'true' if shape.experts else 'false'}"


def _list_options(summary: ModelSummary) -> Iterator[tuple[str, str]]:
    parsers = find_parsers(summary.name)
    yield "gpu-memory-utilization", str(UTILIZATION)
    yield "max-model-len", str(summary.length or "auto")
    yield "max-num-seqs", str(SEQUENCES)
    if parsers.tools:
        yield "enable-auto-tool-choice", "true"
        yield "tool-call-parser", parsers.tools
    if parsers.reasoning:
        yield "reasoning-parser", parsers.reasoning


def _list_reasons(summary: ModelSummary) -> Iterator[tuple[str, str]]:
    parsers = find_parsers(summary.name)
    context = summary.model.shape.context if summary.model.shape else None
    if summary.length and summary.length == context:
        yield "max-model-len", "the model's own"
    elif summary.length and summary.fit.longest:
        longest = int(summary.fit.longest.low)
        yield (
            "max-model-len",
            f"of the model's {context} tokens, {longest} fit on {_format_sparks(summary.tp)}",
        )
    else:
        yield "max-model-len", "vLLM finds the longest that fits"
    yield "max-num-seqs", "a Spark is for one to four requests at once"
    if parsers.tools:
        yield "tool-call-parser", "named for this model by vLLM's documents or a shipped recipe"
    if parsers.reasoning:
        yield "reasoning-parser", "named for this model by vLLM's documents or a shipped recipe"


def _format_sparks(count: int) -> str:
    return f"{count} Sparks" if count > 1 else "one Spark"


def _format_result(summary: ModelSummary, path: Path) -> Iterator[str]:
    given = quote([path.stem if path.parent == Path(FOLDER) else str(path)])
    size = f"--tp {summary.tp}" if summary.tp > 1 else "--solo"
    yield f"wrote {format_path(path)}"
    yield f"on {_format_sparks(summary.tp)} {summary.fit.sentence}"
    yield from summary.model.unknown
    yield "next:"
    yield f"  {name_command('recipes.fit')} {given} --hub"
    yield f"  {name_command('cluster.up')} {size} --recipe {given}"

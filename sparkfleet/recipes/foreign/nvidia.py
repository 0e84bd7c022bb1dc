"""recipe.yaml of NVIDIA/local-ai-inference-recipes, schema_version 3 and 4."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkfleet.errors import RecipeError, quote_value
from sparkfleet.recipes.foreign.draft import RecipeDraft
from sparkfleet.recipes.foreign.eugr import put_size
from sparkfleet.recipes.foreign.fields import FieldReader
from sparkfleet.recipes.foreign.placeholders import CommandTemplate, ExpandedWord
from sparkfleet.recipes.foreign.serve import (
    ServeCommand,
    note_others,
    put_environment,
    put_options,
    read_serve_command,
    set_model,
)
from sparkfleet.recipes.foreign.words import split_commands
from sparkfleet.vllm.options import VllmOptions
from sparkfleet.yaml.nodes import Map, Node, Scalar

HARDWARE = re.compile(r"dgx-spark(-[24]gpu)?")
SILENT = (  # keys that say nothing about a start
    *("schema_version", "model", "platform", "backend_version", "min_vidmem_gb", "status"),
    *("variant", "spec_dec", "mtp", "precision", "concurrency", "topology", "sampling", "security"),
    *("validation", "launch", "clients"),
)
BY_INVENTORY = {  # interfaces and addresses, which differ from host to host
    *("MN_IF_NAME", "UCX_NET_DEVICES", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_DISABLE"),
    *("OMPI_MCA_btl_tcp_if_include", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NODE_RANK"),
    *("HEAD_IP", "MASTER_PORT", "HF_TOKEN"),
}
USUAL_MOUNTS = ("/.cache/", "/.triton", "HF_CACHE_DIR")  # caches, which sparkfleet mounts too
USUAL_OPTIONS = {
    *("--rm", "-it", "-d", "--gpus", "--ipc", "--network", "--shm-size", "--ulimit"),
    *("--entrypoint", "--name"),
}
TAKES_VALUE = ("--gpus", "--ipc", "--network", "--entrypoint", "--name", "--ulimit", "-e", "-v")
NODE_OPTIONS = ("nnodes", "node-rank", "master-addr", "master-port", "headless")


def convert_nvidia_recipe(draft: RecipeDraft) -> None:
    """Convert the file; raises RecipeError with what is missing or of a wrong type."""
    fields = FieldReader(draft.tree)
    title = fields.text("title", needed=True)
    hardware = fields.text("hardware", needed=True)
    backend = fields.text("backend", needed=True)
    least = fields.text("backend_min_version")
    serve = fields.inner("serve", needed=True)
    runtime = fields.inner("runtime")
    node = None if serve is None else serve.text("command", needed=True)
    image = None if runtime is None else runtime.text("image")
    setup = None if runtime is None else runtime.text("setup_command")
    _check_target(hardware, backend)
    fields.raise_problems()
    if title is None or serve is None or node is None:
        return
    if image is None:
        raise RecipeError(
            "missing runtime.image: sparkfleet starts vLLM in an image",
            where=(fields.tree.get("runtime") or fields.tree).where,
        )
    draft.set("description", str(title.data), title)
    command = _read_commands(draft, serve, node)
    set_model(draft, command, None)
    _put_image(draft, image)
    put_options(draft, command)
    if setup is not None:
        _put_setup(draft, setup)
    put_environment(draft, command.env)
    solo = command.size("tensor-parallel-size") == 1
    template = CommandTemplate({}, strict=False, doubled=False)
    put_size(draft, command, template, cluster_only=not solo, solo_only=solo)
    if least is not None:
        draft.put("requires", "vllm", f">={least.data}", least)
    note_others(draft, command)
    _check_draft(draft, fields)
    _note_rest(draft, fields)


def _check_target(hardware: Scalar | None, backend: Scalar | None) -> None:
    if backend is not None and backend.data != "vllm":
        raise RecipeError(
            f"backend: expected vllm (got {quote_value(backend.data)})",
            where=backend.where,
            hint="sparkfleet serves with vLLM only",
        )
    if hardware is not None and not HARDWARE.fullmatch(str(hardware.data)):
        raise RecipeError(
            f"hardware: expected dgx-spark, dgx-spark-2gpu or dgx-spark-4gpu "
            f"(got {quote_value(hardware.data)})",
            where=hardware.where,
        )


def _read_commands(draft: RecipeDraft, serve: FieldReader, node: Scalar) -> ServeCommand:
    """Return the head's command; raises RecipeError where that of the workers is another."""
    command = read_serve_command(node, CommandTemplate({}, strict=False, doubled=False))
    for item in serve.items("additional_commands"):
        text = item.get("command") if isinstance(item, Map) else None
        target = item.get("target") if isinstance(item, Map) else None
        if not isinstance(text, Scalar) or not isinstance(text.data, str):
            continue
        if target is None or target.data != "workers":
            draft.note("an additional command is left out", item)
            continue
        worker = read_serve_command(text, CommandTemplate({}, strict=False, doubled=False))
        _compare_commands(command, worker, text)
    serve.raise_problems()
    return command


def _compare_commands(head: ServeCommand, worker: ServeCommand, place: Node) -> None:
    differing = [
        name
        for name in sorted(_name_options(head.options) | _name_options(worker.options))
        if head.options.value(name) != worker.options.value(name)
    ]
    variables = sorted(
        name
        for name in head.env.keys() | worker.env.keys()
        if _get_text(head, name) != _get_text(worker, name)
    )
    if differing or variables:
        names = ", ".join([*(f"--{name}" for name in differing), *variables])
        raise RecipeError(
            f"the workers' command differs from the head's: {names}",
            where=place.where,
            hint="every rank of a group is started with the same options",
        )


def _name_options(options: VllmOptions) -> set[str]:
    return {option.name for option in options} - {*NODE_OPTIONS, "port", "host"}


def _get_text(command: ServeCommand, name: str) -> str | None:
    part = command.env.get(name)
    return None if part is None else part.text


def _put_image(draft: RecipeDraft, image: Scalar) -> None:
    name = str(image.data)
    draft.set("engine_image", name, image)
    if name.endswith((":latest", ":nightly")) or ":" not in name:
        draft.note(f"{name} is a moving tag: pin NAME@sha256:DIGEST once it works", image)


def _put_setup(draft: RecipeDraft, setup: Scalar) -> None:
    """Read the `docker run`: variables go to the environment, the rest is named."""
    template = CommandTemplate({}, strict=False, doubled=False)
    for command in split_commands(setup):
        parts = [part for word in command for part in template.expand(word)]
        if [part.text for part in parts[:2]] != ["docker", "run"]:
            continue
        for option, value, place in _iterate_docker_options(parts[2:]):
            _put_docker_option(draft, option, value, place)


def _iterate_docker_options(parts: list[ExpandedWord]) -> Iterator[tuple[str, str, Node]]:
    """Yield the options before the image, with their values and places."""
    at = 0
    while at < len(parts) and parts[at].text.startswith("-"):
        option, _, value = parts[at].text.partition("=")
        place = parts[at].place
        if not value and option in TAKES_VALUE and at + 1 < len(parts):
            at += 1
            value = parts[at].text
            place = parts[at].place
        at += 1
        yield option, value, place


def _put_docker_option(draft: RecipeDraft, option: str, value: str, place: Node) -> None:
    if option in ("-e", "--env"):
        name, _, text = value.partition("=")
        if name not in BY_INVENTORY:
            put_environment(draft, {name: ExpandedWord(text=text, place=place)})
    elif option in ("-v", "--volume"):
        if not any(part in value for part in USUAL_MOUNTS):
            draft.note(f"the mount {value} is left out", place, "engine_mounts adds mounts")
    elif option == "--security-opt":
        draft.append("engine_args", f"--security-opt={value}", place)
    elif option == "--privileged":
        draft.note("--privileged is left out: engine_privileged gives it", place)
    elif option not in USUAL_OPTIONS:
        draft.note(f"the option {option} of docker run is left out", place)


def _check_draft(draft: RecipeDraft, fields: FieldReader) -> None:
    """Note a draft that the file names and the command does not use."""
    checkpoint = fields.mapping("checkpoint")
    label = checkpoint.get("draft_label") if checkpoint is not None else None
    if label is None or not label.data:
        return
    drafts = draft.entries.get("weights_drafts")
    if drafts is None or label.data not in drafts[1].data:
        draft.note(f"the draft {label.data} is not named by the command", label)


def _note_rest(draft: RecipeDraft, fields: FieldReader) -> None:
    for name in ("prerequisites", "limitations"):
        for item in fields.texts(name):
            draft.append("advice", f"{name}: {item.data}", item)
    notes = fields.text("notes")
    if notes is not None:
        draft.append("advice", " ".join(str(notes.data).split()), notes)
    fields.raise_problems()
    for key in fields.list_unknown(SILENT):
        draft.note(f"{key.data} is not a known key, and is left out", key)

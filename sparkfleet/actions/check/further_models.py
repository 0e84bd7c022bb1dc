"""Models that are staged on the head besides the served one: its draft, and its adapters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from sparkfleet.actions.run_context import RunContext
from sparkfleet.fit.options import ServeOptions
from sparkfleet.launch.preflight.checkpoint_facts import ADAPTER
from sparkfleet.launch.staged_paths import MODEL_PLACEHOLDER
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection
from sparkfleet.vllm.lora_modules import parse_lora_modules
from sparkfleet.weights import layout
from sparkfleet.weights.shapes import fetch_host_shape


def find_draft_folder(run: RunContext, host: Host, start_options: ServeOptions) -> str | None:
    """Return the folder of the draft model on `host`, if `weights_drafts` stages it."""
    if start_options.speculation is None or start_options.speculation.model is None:
        return None
    root = run.settings(host).text("weights_dir")
    for model in run.weights.models[1:]:
        if model.manifest.name == start_options.speculation.model:
            return f"{root}/{layout.locate_served_folder(model.manifest)}"
    return None


def read_adapter_configs(
    run: RunContext, connection: Connection, texts: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the configs of adapters that are in the model's folder, or staged by themselves."""
    settings = run.settings(connection.host)
    root = settings.text("weights_dir")
    staged = {model.manifest.name: model.manifest for model in run.weights.models[1:]}
    found = {}
    for path in parse_lora_modules(settings.vllm_options.value("lora-modules")).values():
        inside = path.removeprefix(f"{MODEL_PLACEHOLDER}/")
        manifest = staged.get(path) or staged.get(PurePosixPath(path).name)
        text = texts.get(f"{inside}/{ADAPTER}") if inside != path else None
        if text is None and manifest is not None:
            folder = f"{root}/{layout.locate_served_folder(manifest)}"
            text = fetch_host_shape(connection, folder)["files"].get(ADAPTER)
        if text is not None:
            found[path] = text
    return found

"""The models that a recipe needs: the model, its drafts, loose files, and their sources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sparkfleet.errors import InventoryError
from sparkfleet.recipes.settings import Settings
from sparkfleet.resources import expand_home
from sparkfleet.weights import hub, layout
from sparkfleet.weights.manifest import (
    HashingCallback,
    Manifest,
    build_file_manifest,
    build_folder_manifest,
    check_folder_name,
    ignore_hashing,
)
from sparkfleet.weights.transfer.sources import FolderSource, HubSource, WeightsSource

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
COMPANION_PATTERNS = (  # files besides weights that the engine always reads
    "*config.json",
    "params.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab*",
    "merges.txt",
    "tekken.json",
    "*.tiktoken",
    "*.jinja",
    "chat_template*",
    "*.py",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredModel:
    """A model, or with `file` one loose file of it; from the Hub unless a local `folder` has it."""

    name: str
    revision: str = "main"
    folder: Path | None = None
    file: str | None = None
    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of all files that are wanted; empty for every file."""
        return (*self.allow, *COMPANION_PATTERNS) if self.allow else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """A required model made exact: its manifest, and where its bytes come from if no host has them.

    Without a `source`, in offline mode, only hosts that have them can give them.
    """

    manifest: Manifest
    source: WeightsSource | None


def list_required_models(settings: Settings) -> tuple[RequiredModel, ...]:
    """Return what the settings of the head ask for, the model first."""
    model = settings.needed("vllm_model")
    folder = settings.text("weights_source")
    first = RequiredModel(
        name=model,
        revision=settings.text("weights_revision"),
        folder=expand_home(folder) if folder else None,
        allow=tuple(settings.value("weights_allow") or ()),
        ignore=tuple(settings.value("weights_ignore") or ()),
    )
    drafts = (_parse_model_reference(str(text)) for text in settings.value("weights_drafts") or ())
    files = (_parse_file_reference(str(text)) for text in settings.value("weights_files") or ())
    return (first, *drafts, *files)


def resolve_required_models(
    settings: Settings, progress: HashingCallback = ignore_hashing
) -> tuple[ResolvedModel, ...]:
    """Return what the settings of the head ask for, made exact; asks the Hub once for each.

    Raises as `resolve_model` does, and InventoryError where this machine must send a model that
    it does not have.
    """
    offline = bool(settings.value("weights_offline")) or hub.is_offline()
    away = next(
        (required.name for required in list_required_models(settings) if required.folder is None),
        None,
    )
    if settings.text("weights_strategy") == "push" and away is not None:
        raise InventoryError(
            f"weights_strategy: push sends from this machine, but {away} is not a local folder",
            where=settings.origin("weights_strategy"),
            hint=(
                "set weights_source to a local folder, or let a node download it: "
                "weights_strategy: fanout"
            ),
        )
    models = tuple(
        resolve_model(required, offline=offline, progress=progress)
        for required in list_required_models(settings)
    )
    _check_has_weights(models[0].manifest, settings)
    _check_no_overlap(models)
    return models


def _check_has_weights(model: Manifest, settings: Settings) -> None:
    """Raise InventoryError for a model of which only the small files exist or were selected."""
    if not any(file.path.endswith(WEIGHT_SUFFIXES) for file in model.files):
        allowed = ", ".join(str(text) for text in settings.value("weights_allow") or ())
        raise InventoryError(
            f"{model.name} has no weights" + f" like {allowed}" * bool(allowed),
            where=settings.origin("weights_allow" if allowed else "vllm_model"),
            hint="an interrupted download, or wrong patterns? check weights_source and "
            "weights_allow",
        )


def _check_no_overlap(models: Iterable[ResolvedModel]) -> None:
    """Raise InventoryError for two files that would have the same path."""
    hashes: dict[str, str] = {}
    for location in (
        location for model in models for location in layout.list_file_locations(model.manifest)
    ):
        if hashes.setdefault(location.path, location.file.hash) != location.file.hash:
            raise InventoryError(
                "two files of weights_source, weights_drafts and weights_files have the same path "
                f"{location.path}",
                hint="give one of them another name",
            )


def _parse_model_reference(text: str) -> RequiredModel:
    """Return the model that ``ORG/NAME@COMMIT`` or a path names."""
    if text.startswith(("/", "~", "./", "../")):
        folder = expand_home(text)
        return RequiredModel(name=folder.absolute().name, folder=folder)
    name, _, revision = text.partition("@")
    return RequiredModel(name=name, revision=revision or "main")


def _parse_file_reference(text: str) -> RequiredModel:
    """Return the file that ``ORG/NAME@COMMIT:FILE`` or a path names.

    Raises InventoryError for an address, from which a browser or wget would get it.
    """
    if "://" in text:
        problem = f"weights_files: {text} is an address"
        raise InventoryError(problem, hint="write ORG/NAME@COMMIT:FILE, or the path of a file here")
    repository, colon, file = text.partition(":")
    if colon:
        return replace(_parse_model_reference(repository), file=file)
    path = expand_home(text)
    return RequiredModel(name=layout.LOOSE, folder=path.parent, file=path.name)


def resolve_model(
    required: RequiredModel, *, offline: bool = False, progress: HashingCallback = ignore_hashing
) -> ResolvedModel:
    """Return the manifest of `required` and its source; asks the Hub, or hashes a local folder.

    Raises InventoryError for a folder that is not there, HubError, InputError.
    """
    if required.folder is not None:
        return _resolve_local_model(required, required.folder, progress)
    manifest = hub.resolve_manifest(
        required.name, required.revision, token=hub.read_token(), offline=offline
    )
    online = HubSource(url=hub.resolve_url(manifest), token=hub.read_token() or "")
    source = None if offline else online
    if required.file is not None:
        selected = hub.select_files(manifest, allow=[required.file])
        return ResolvedModel(
            manifest=Manifest(name=layout.LOOSE, files=selected.files), source=source
        )
    hub.select_files(manifest, allow=required.allow)
    selected = hub.select_files(manifest, allow=required.patterns, ignore=required.ignore)
    return ResolvedModel(manifest=selected, source=source)


def _resolve_local_model(
    required: RequiredModel, folder: Path, progress: HashingCallback
) -> ResolvedModel:
    if not folder.is_dir():
        raise InventoryError(
            f"folder {folder} not found on this machine",
            hint="name the folder that holds config.json and the safetensors shards",
        )
    if required.file is not None:
        manifest = build_file_manifest(folder / required.file)
    else:
        check_folder_name(required.name)
        chosen = hub.make_file_filter(required.patterns, required.ignore)
        manifest = replace(build_folder_manifest(folder, progress, chosen), name=required.name)
    return ResolvedModel(manifest=manifest, source=FolderSource(folder=folder))

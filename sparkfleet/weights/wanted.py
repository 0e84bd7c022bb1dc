"""What a recipe wants on its hosts: the model, its drafts, loose files; and where each is from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sparkfleet.errors import InventoryError
from sparkfleet.recipes.settings import Settings
from sparkfleet.weights import hub, layout
from sparkfleet.weights.manifest import (
    Manifest,
    Progress,
    check_name,
    from_folder,
    of_file,
    silent,
)
from sparkfleet.weights.sources import FolderSource, HubSource, Source

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
ALONG = (  # what the engine reads beside weights, however they are chosen
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
class Want:
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
        return (*self.allow, *ALONG) if self.allow else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """A want made exact: its manifest, and where its bytes come from if no host has them.

    Without a `source`, in offline mode, only hosts that have them can give them.
    """

    manifest: Manifest
    source: Source | None


def wanted(settings: Settings) -> tuple[Want, ...]:
    """Return what the settings of the head ask for, the model first."""
    model, folder = settings.needed("vllm_model"), settings.text("weights_source")
    first = Want(
        name=model,
        revision=settings.text("weights_revision"),
        folder=Path(folder).expanduser() if folder else None,
        allow=tuple(settings.value("weights_allow") or ()),
        ignore=tuple(settings.value("weights_ignore") or ()),
    )
    drafts = (_parse(str(text)) for text in settings.value("weights_drafts") or ())
    files = (_loose(str(text)) for text in settings.value("weights_files") or ())
    return (first, *drafts, *files)


def stocks_of(settings: Settings, progress: Progress = silent) -> tuple[Stock, ...]:
    """Return what the settings of the head ask for, made exact; asks the Hub once for each.

    Raises as `stock` does, and InventoryError where this machine is to send what it has not.
    """
    offline = bool(settings.value("weights_offline")) or hub.is_offline()
    away = next((want.name for want in wanted(settings) if want.folder is None), None)
    if settings.text("weights_strategy") == "push" and away is not None:
        raise InventoryError(
            f"weights_strategy: push sends from this machine, and {away} is no folder of it",
            where=settings.origin("weights_strategy"),
            hint="name the folder in weights_source, or let a node download it: fanout",
        )
    stocks = tuple(stock(want, offline=offline, progress=progress) for want in wanted(settings))
    _check_weights(stocks[0].manifest, settings)
    _check_apart(stocks)
    return stocks


def _check_weights(model: Manifest, settings: Settings) -> None:
    """Raise InventoryError for a model of which only the small files are there, or chosen."""
    if not any(file.path.endswith(WEIGHTS) for file in model.files):
        allowed = ", ".join(str(text) for text in settings.value("weights_allow") or ())
        raise InventoryError(
            f"{model.name} has no weights" + f" like {allowed}" * bool(allowed),
            where=settings.origin("weights_allow" if allowed else "vllm_model"),
            hint="a download that was broken off? the right patterns? see weights_source, "
            "weights_allow",
        )


def _check_apart(stocks: Iterable[Stock]) -> None:
    """Raise InventoryError for two files that would stand in one place."""
    found: dict[str, str] = {}
    for place in (place for one in stocks for place in layout.places(one.manifest)):
        if found.setdefault(place.path, place.file.hash) != place.file.hash:
            raise InventoryError(
                f"two files of weights_source, weights_drafts and weights_files are {place.path}",
                hint="give one of them another name",
            )


def _parse(text: str) -> Want:
    """Return the want that ``ORG/NAME@COMMIT`` or a path is."""
    if text.startswith(("/", "~", "./", "../")):
        folder = Path(text).expanduser()
        return Want(name=folder.absolute().name, folder=folder)
    name, _, revision = text.partition("@")
    return Want(name=name, revision=revision or "main")


def _loose(text: str) -> Want:
    """Return the want that ``ORG/NAME@COMMIT:FILE`` or the path of a file is.

    Raises InventoryError for an address, from which a browser or wget would get it.
    """
    if "://" in text:
        problem = f"weights_files: {text} is an address"
        raise InventoryError(problem, hint="write ORG/NAME@COMMIT:FILE, or the path of a file here")
    repository, colon, file = text.partition(":")
    if colon:
        return replace(_parse(repository), file=file)
    path = Path(text).expanduser()
    return Want(name=layout.LOOSE, folder=path.parent, file=path.name)


def stock(want: Want, *, offline: bool = False, progress: Progress = silent) -> Stock:
    """Return the manifest of `want` and its source; asks the Hub, or hashes a local folder.

    Raises InventoryError for a folder that is not there, HubError, InputError.
    """
    if want.folder is not None:
        return _local(want, want.folder, progress)
    manifest = hub.resolve(want.name, want.revision, token=hub.token(), offline=offline)
    online = HubSource(url=hub.resolve_url(manifest), token=hub.token() or "")
    source = None if offline else online
    if want.file is not None:
        found = hub.select(manifest, allow=[want.file])
        return Stock(manifest=Manifest(name=layout.LOOSE, files=found.files), source=source)
    hub.select(manifest, allow=want.allow)
    found = hub.select(manifest, allow=want.patterns, ignore=want.ignore)
    return Stock(manifest=found, source=source)


def _local(want: Want, folder: Path, progress: Progress) -> Stock:
    if not folder.is_dir():
        raise InventoryError(
            f"there is no folder {folder} on this machine",
            hint="name the folder that holds config.json and the safetensors shards",
        )
    if want.file is not None:
        manifest = of_file(folder / want.file)
    else:
        check_name(want.name)
        chosen = hub.chooser(want.patterns, want.ignore)
        manifest = replace(from_folder(folder, progress, chosen), name=want.name)
    return Stock(manifest=manifest, source=FolderSource(folder=folder))

"""The staged weights as later tasks see them: paths, commit, and what each host lacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkfleet.actions.run_state import StagedWeights
from sparkfleet.model import EMPTY
from sparkfleet.weights import layout
from sparkfleet.weights.manifest import Manifest
from sparkfleet.weights.required_models import ResolvedModel


def build_staged_weights(
    models: Sequence[ResolvedModel],
    roots: Mapping[str, str],
    lacking: Mapping[str, int] = EMPTY,
) -> StagedWeights:
    """Return where `models` belong below the weights folder of each host, `roots`."""
    served = layout.locate_served_folder(models[0].manifest)
    return StagedWeights(
        paths={name: f"{root}/{served}" for name, root in roots.items()},
        commit=";".join(fingerprint_manifest(model.manifest) for model in models),
        lacking=lacking,
        drafts=find_draft_folders(models),
        models=tuple(models),
    )


def fingerprint_manifest(manifest: Manifest) -> str:
    """Return a text that changes when any byte of the model does."""
    return manifest.commit or ",".join(f"{file.path}={file.hash}" for file in manifest.files)


def find_draft_folders(models: Sequence[ResolvedModel]) -> Mapping[str, str]:
    """Return the folders of all models of the Hub but the first, below the weights folder."""
    manifests = (model.manifest for model in models[1:])
    return {
        manifest.name: layout.locate_served_folder(manifest)
        for manifest in manifests
        if manifest.commit
    }

"""`stage_weights`: the model complete, the same, and proven on every node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.scene import Scene
from sparkfleet.errors import CommandError, InventoryError
from sparkfleet.model import Change, Host
from sparkfleet.quantities import show_size
from sparkfleet.remote.link import Link
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Progress
from sparkfleet.weights import layout, stage
from sparkfleet.weights.inspection import Inspection, inspect
from sparkfleet.weights.manifest import Manifest, from_folder
from sparkfleet.weights.stage import StagePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Where the model is on each host, and a text that changes when any of its bytes do."""

    paths: Mapping[str, str]
    commit: str


class StageWeights(Action[NoArgs]):
    """Send what a node lacks of the model from the control machine, and prove it by hash.

    Additive: nothing that serves now is touched, and a run with everything in place sends nothing.
    """

    name = "stage_weights"

    def look(self, scene: Scene, hosts: tuple[Host, ...]) -> Answers[Inspection]:
        """Hash the source once, then ask every host what it holds."""
        source = self._source(scene)
        name = scene.settings(scene.cluster.head).needed("vllm_model")
        manifest = replace(from_folder(source), name=name)
        scene.remember(Source(folder=source, manifest=manifest))
        return scene.pool.map(
            lambda link: inspect(
                link,
                manifest,
                scene.settings(link.host).text("weights_dir"),
                record=not scene.options.check,
            ),
            hosts,
        )

    def plan(self, scene: Scene, seen: Mapping[str, Inspection]) -> Mapping[str, Plan]:
        """Plan what each host lacks."""
        manifest = scene.recall(Source).manifest
        plans = stage.plan(manifest, seen)
        served = layout.served(manifest)
        scene.remember(
            Staged(
                paths={name: f"{plan.root}/{served}" for name, plan in plans.items()},
                commit=hash_of(manifest),
            )
        )
        return {name: _plan(manifest, plan) for name, plan in plans.items()}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Send what one host lacks, then look again: only what is proven there counts."""
        source, host = scene.recall(Source), link.host.name

        def moved(name: str, done: int, size: int) -> None:
            text = f"{show_size(done)} of {show_size(size)}"
            scene.tell(Progress(host=name, text=text, done=done, total=size))

        landed = stage.push(link, source.manifest, source.folder, plan.work, moved=moved)
        if landed.wrong:
            raise CommandError(
                f"arrived with a wrong hash: {', '.join(landed.wrong)}",
                host=host,
                hint="was the source changed while it was sent? run it again",
            )
        verdicts = stage.verify(
            link, source.manifest, scene.settings(link.host).text("weights_dir")
        )
        return Plan(
            changes=plan.changes,
            verdicts=verdicts,
            message=f"{landed.files} files, {show_size(landed.bytes)} sent and verified",
        )

    def _source(self, scene: Scene) -> Path:
        settings = scene.settings(scene.cluster.head)
        folder = Path(settings.needed("weights_source")).expanduser()
        if not folder.is_dir():
            raise InventoryError(
                f"weights_source: there is no folder {folder} on this machine",
                where=settings.origin("weights_source"),
                hint="name the folder that holds config.json and the safetensors shards",
            )
        return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The folder on the control machine that the model comes from, and what is in it."""

    folder: Path
    manifest: Manifest


def hash_of(manifest: Manifest) -> str:
    """Return a text that changes when any byte of the model does."""
    return manifest.commit or ",".join(f"{file.path}={file.hash}" for file in manifest.files)


def _plan(manifest: Manifest, plan: StagePlan) -> Plan:
    if not plan.changes:
        size = f"{len(manifest.files)} files, {show_size(manifest.size)}"
        return Plan(verdicts=plan.verdicts, message=f"complete: {size}; 0 bytes to send")
    target = f"{plan.root}/{layout.served(manifest)}"
    summary = f"send {len(plan.sends)} files, {show_size(plan.size)}, to {target}"
    return Plan(changes=(Change(summary=summary),), verdicts=plan.verdicts, work=plan)

"""`cluster.render`: every file that would run, for reading or for running by hand."""

from __future__ import annotations

from pathlib import Path

from sparkfleet import links
from sparkfleet.actions.action import NoArgs
from sparkfleet.actions.gather_facts import Fleet, GatherFacts
from sparkfleet.actions.launching import Launch
from sparkfleet.actions.render import Render
from sparkfleet.actions.scene import Options, Scene
from sparkfleet.actions.stage_weights import Staged, drafts_of, hash_of
from sparkfleet.cli.asked import Asked
from sparkfleet.cli.output_folder import prepare, write
from sparkfleet.cli.resolution import Resolved, resolve, tell
from sparkfleet.cli.screen import say
from sparkfleet.errors import GateError, UsageError
from sparkfleet.launch.executor import choose
from sparkfleet.launch.preflight import check_settings
from sparkfleet.links import Fabric
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Pool
from sparkfleet.report.events import Silent
from sparkfleet.weights import layout
from sparkfleet.weights.wanted import stocks_of


def render_files(asked: Asked, out: str | None) -> int:
    """Write the files of every host below the folder `out`; only looks at the hosts.

    Raises UsageError for a folder with files that are not ours, and what facts and the Hub raise.
    """
    if not out:
        raise UsageError("--out needs a folder", hint="type: --out rendered")
    folder = Path(out)
    known = prepare(folder)
    resolved = resolve(asked)
    tell(asked, resolved)
    with Pool(open_link, forks=asked.forks) as pool:
        launch = _rendered(resolved, asked, pool)
    write(folder, launch.deployment.files, known)
    _tell(folder, launch)
    return 0


def _rendered(resolved: Resolved, asked: Asked, pool: Pool) -> Launch:
    scene = Scene(
        inventory=resolved.inventory,
        cluster=resolved.cluster,
        recipe=resolved.recipe,
        options=Options(tp=asked.tp, pp=asked.pp, check=True),
        given=asked.given,
        pool=pool,
        reporter=Silent(),
        log_dir=Path(),
        run_id="render",
    )
    hosts = resolved.cluster.hosts
    for host in hosts:
        check_settings(scene.settings(host))
    gather = GatherFacts(NoArgs())
    gather.plan(scene, gather.look(scene, hosts).all())
    if scene.options.nodes > 1:
        scene.remember(_fabric(scene))
    scene.remember(_staged(scene))
    _check_executor(scene)
    Render(NoArgs()).plan(scene, {host.name: None for host in hosts})
    return scene.recall(Launch)


def _fabric(scene: Scene) -> Fabric:
    found = links.fabric(scene.recall(Fleet).facts, scene.cluster.hosts)
    for host in scene.cluster.hosts:
        if found.address(host.name) is None:
            raise GateError(
                "no fabric address that the whole group reaches",
                host=host.name,
                hint="see what stands in the way: links.show, links.verify",
            )
    return found


def _staged(scene: Scene) -> Staged:
    """Return where the weights belong on every host, whether they are there yet or not."""
    stocks = stocks_of(scene.settings(scene.cluster.head))
    served = layout.served(stocks[0].manifest)
    paths = {}
    for host in scene.cluster.hosts:
        root = scene.settings(host).text("weights_dir")
        paths[host.name] = f"{scene.recall(Fleet).surveys[host.name].expand(root)}/{served}"
    commit = ";".join(hash_of(one.manifest) for one in stocks)
    return Staged(paths=paths, commit=commit, drafts=drafts_of(stocks))


def _check_executor(scene: Scene) -> None:
    settings, surveys = scene.settings(scene.cluster.head), scene.recall(Fleet).surveys
    if choose(settings, surveys, nodes=scene.options.nodes) is None:
        raise UsageError(
            "whether Ray or vLLM itself joins the hosts is known once the image was looked into",
            hint="say it: --set vllm_executor=ray, or --set vllm_executor=mp",
        )


def _tell(folder: Path, launch: Launch) -> None:
    say(f"deployment {launch.deployment.hash}")
    for host, files in launch.deployment.files.items():
        say(f"{folder / host}: {', '.join(files)}")
        say(f"    belongs to {launch.surveys[host].folder}/ on {host}")
    say(f"{launch.reason or 'it runs already'}; to run it: cluster.up")

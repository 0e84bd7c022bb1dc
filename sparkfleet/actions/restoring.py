"""Bringing the previous deployment back on all hosts together, and seeing that it serves."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.launching import Attempt, Launch, forget, place
from sparkfleet.actions.scene import Scene
from sparkfleet.errors import LaunchError, SparkfleetError, UnreachableError
from sparkfleet.launch import guards, processes
from sparkfleet.launch.join import judge, wait_for_nodes
from sparkfleet.launch.ranks import News
from sparkfleet.launch.transaction import Previous
from sparkfleet.launch.watch import Post, Watch, ranks_of, rendezvous
from sparkfleet.model import Host
from sparkfleet.remote.link import Link
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Note, Progress

LAST = "serve"  # the role that needs all others, on the head


def restore(scene: Scene, hosts: Sequence[Host]) -> Answers[None]:
    """Stop what this run started on `hosts`, bring back what was there, and tell how that went.

    A host that is lost keeps the others' previous deployment from serving, if it was a part of it:
    then the state stays on the hosts, and the next run knows what to bring back.
    """
    attempt = scene.found(Attempt)
    if attempt is None or not attempt.states:
        return Answers(values={}, errors={})
    scene.remember(Attempt(states={}))
    targets = {name: state.previous for name, state in attempt.states.items()}
    put = scene.pool.map(lambda link: _put_back(scene, link, targets[link.host.name]), hosts)
    serving = [target for target in targets.values() if target.roles]
    spanned = {name: None for target in serving for name in target.about.hosts}
    lost = [name for name in spanned if name not in put.values]
    if lost:
        _tell(scene, f"stays down: {', '.join(lost)} cannot be reached; then: cluster.up")
    elif serving:
        _return(scene, [host for host in hosts if host.name in put.values], targets)
    else:
        if any(target.hash for target in targets.values()):
            _tell(scene, "had died before this run, and stays down", level="warning")
        scene.pool.map(lambda link: forget(scene, link), hosts)
    return put


def _put_back(scene: Scene, link: Link, target: Previous) -> None:
    """End what runs, and put the files back that were there before."""
    name, where = link.host.name, place(scene, link.host)
    processes.stop(link, where)
    launch = scene.found(Launch)
    ours = dict.fromkeys(scene.recall(Fleet).surveys[name].files)
    if launch:
        ours |= dict.fromkeys(launch.deployment.files.get(name, ()))
    processes.write_files(link, where, {**ours, **target.files})


def _return(scene: Scene, hosts: Sequence[Host], targets: Mapping[str, Previous]) -> None:
    """Start the previous deployment, wait for it within its own limit, and tell the outcome."""
    began = time.monotonic()
    _tell(scene, "is started again", level="info")
    try:
        _start(scene, hosts, targets)
    except UnreachableError as error:
        _tell(scene, f"does not come back: {error}")
        return
    except SparkfleetError as error:
        _tell(scene, f"does not come back: {error}")
    else:
        _tell(scene, f"serves again after {time.monotonic() - began:.0f} s", level="info")
    scene.pool.map(lambda link: forget(scene, link), hosts)


def _start(scene: Scene, hosts: Sequence[Host], targets: Mapping[str, Previous]) -> None:
    """Start its roles in the order of a start, and watch all of them until the endpoint answers."""
    parts = [host for host in hosts if targets[host.name].roles]
    about = targets[parts[0].name].about
    head = next(host for host in parts if host.name == about.hosts[0])
    scene.pool.map(lambda link: _arm(scene, link, targets[link.host.name]), parts).all()
    scene.pool.map(lambda link: _start_roles(scene, link, targets, last=False), parts).all()
    if about.ray_nodes:
        link = scene.pool.link(head)
        nodes = wait_for_nodes(link, targets[head.name].about, timeout=about.join_timeout)
        if missing := judge(nodes, about.ray_nodes):
            raise LaunchError(missing, host=head.name)
    scene.pool.map(lambda link: _start_roles(scene, link, targets, last=True), [head]).all()
    watch = Watch(ranks_of(about), lambda news: _show(scene, news), rendezvous(about))
    posts = {host.name: _post(scene, host, targets[host.name]) for host in parts}
    scene.pool.map(lambda link: watch.follow(link, posts[link.host.name]), parts).all()


def _arm(scene: Scene, link: Link, target: Previous) -> None:
    where = processes.place_of(place(scene, link.host), target.cli)
    guards.arm(link, where, scene.settings(link.host), loads=False)


def _start_roles(scene: Scene, link: Link, targets: Mapping[str, Previous], *, last: bool) -> None:
    """Start the role that needs all others, or those others, on one host."""
    target = targets[link.host.name]
    where = processes.place_of(place(scene, link.host), target.cli)
    is_head = link.host.name == target.about.hosts[0]
    for role, script in target.roles.items():
        if (is_head and role == LAST) is last:
            processes.start(link, where, role, script, hash_=target.hash or "", about=target.about)


def _post(scene: Scene, host: Host, target: Previous) -> Post:
    about = target.about
    return Post(
        place=processes.place_of(place(scene, host), target.cli),
        folder=scene.recall(Fleet).surveys[host.name].folder,
        roles=tuple(target.roles),
        port=about.port if host.name == about.hosts[0] else None,
        limit=about.ready_timeout,
    )


def _show(scene: Scene, news: News) -> None:
    scene.tell(Progress(host=news.host, text=f"previous deployment: {news}"))


def _tell(scene: Scene, text: str, *, level: str = "error") -> None:
    scene.tell(Note(text=f"previous deployment {text}", level=level))

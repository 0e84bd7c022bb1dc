"""Contents of a page: two Sparks that serve, and the same with hostile text in each field."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sparkfleet import links
from sparkfleet.cli.views.health import serialize_health
from sparkfleet.doctor.diagnosis import diagnose_logs
from sparkfleet.doctor.logs import LogBundle, LogFile
from sparkfleet.errors import Where
from sparkfleet.launch.endpoint.bench_history import BenchEntry
from sparkfleet.launch.endpoint.health import ClusterHealth, HealthState, RankHealth
from sparkfleet.launch.host.vitals import LinkRate, TrafficSample
from sparkfleet.launch.watching.events import ClusterEvent, EventKind
from sparkfleet.links.bandwidth.rates import MeasuredRate
from sparkfleet.links.drawing.svg_map import build_map_rows
from sparkfleet.links.receipt import MeasuredLinks
from sparkfleet.page.content import Background, LinkMap, PageContent, Served
from sparkfleet.recipes.explanation import Setting
from tests.gb10 import pair

AT = 1_790_000_000.0
HOSTS = ("spark-01", "spark-02")
KEYS = {*HOSTS, "spark-1", "spark-2", "vllm", "cluster.up gemma4-31b-fp8 2", "Start Ray"}
GIB = 2**30
HOSTILE = (
    "<script>alert('run')</script><img src=x onerror=\"alert('run')\">'\"&amp;"
    "\x00\x07\x1b]0;title\x07\u202egnp.exe</td></table></section><svg onload=alert(1)>{{ 7 * 7 }}"
)


def build_links() -> LinkMap:
    """Return a direct cable with two rails and its rates."""
    sparks = pair()
    facts = {spark.name: spark.facts() for spark in sparks}
    hosts = tuple(spark.host() for spark in sparks)
    fabric = links.select_fabric(facts, hosts)
    rows = build_map_rows(fabric)
    first, second = fabric.hosts
    rates = tuple(
        MeasuredRate(
            host=host,
            peer=peer,
            rails=tuple(rail.name for rail in fabric.rails[host]),
            whole=True,
            gbps=gbps,
            tool="ib_write_bw",
        )
        for host, peer, gbps in ((first, second, 187.31), (second, first, 186.94))
    )
    return LinkMap(
        fabric=fabric,
        rows=rows,
        verdicts=tuple(links.run_static_gate(fabric, facts, hosts)),
        measured=MeasuredLinks(at=datetime.fromtimestamp(AT - 86400, UTC), rates=rates),
    )


def build_health(**changed: Any) -> dict[str, Any]:
    """Return the document of a verdict."""
    ranks = tuple(
        RankHealth(rank=at, host=host, alive=True, pid=4100 + at, gpu_memory=(91 + at) * GIB)
        for at, host in enumerate(HOSTS)
    )
    health = ClusterHealth(
        state=HealthState.SERVING, reason="every rank works, and /health answers", ranks=ranks
    )
    return serialize_health(replace(health, **changed))


def build_host(number: int) -> dict[str, Any]:
    """Return the status of one host, as `cluster.status` has it."""
    head = number == 0
    return {
        "state": "running",
        "deployment": "5f3a9c21",
        "recipe": "gemma4-31b-fp8",
        "roles": {
            "ray": {"pid": 4000, "alive": True, "seconds": 86400.0},
            **({"serve": {"pid": 4001, "alive": True, "seconds": 86321.0}} if head else {}),
        },
        "containers": [],
        "memory": {"total": 130_663_231_488, "available": 14_331_301_888 + number * GIB},
        "gpu": {"power": 61.4, "temperature": 66.0, "clock": 2405.0, "slowed": []},
        "gpu_processes": [],
        "healthy": True if head else None,
        "load": {
            "generated": 41.62,
            "prompted": 1203.5,
            "running": 3,
            "waiting": 0,
            "cache": 0.1834,
            "ttft": 0.412,
            "gap": 0.024,
            "preempted": 0,
        }
        if head
        else None,
        "ray_nodes": None,
        "interrupted": None,
    }


def build_status(**changed: Any) -> dict[str, Any]:
    """Return the document of `cluster.status`."""
    return {
        "cluster": "sparks",
        "health": build_health(),
        "hosts": {name: build_host(at) for at, name in enumerate(HOSTS)},
        "notes": [],
        "exit_code": 0,
        **changed,
    }


def build_bench() -> tuple[BenchEntry, ...]:
    """Return a history of two weeks, for one request and for four at once."""
    return tuple(
        BenchEntry(
            at=AT - 86400 * (14 - day),
            recipe="gemma4-31b-fp8",
            nodes=2,
            requests=requests,
            context=2048,
            answer=128,
            ttft=0.41,
            prefill=2210.0,
            decode=(12.4 if requests == 1 else 41.0) * (1 + 0.02 * ((day * 7) % 5)),
            disturbed="other clients generated 40 tokens" if day == 9 else "",
        )
        for day in (1, 4, 6, 9, 12, 14)
        for requests in (1, 4)
    )


def build_settings() -> tuple[Setting, ...]:
    """Return values of a recipe and an inventory."""
    recipe = Where(file="playbooks/recipes/gemma4-31b-fp8.yml", line=31)
    inventory = Where(file="inventories/local.yml", line=12)
    return (
        Setting(variable="engine", key=None, value="docker", where=inventory),
        Setting(
            variable="vllm_args",
            key="max-model-len",
            value=65536,
            where=inventory,
            over=((32768, recipe),),
        ),
        Setting(variable="vllm_args", key="gpu-memory-utilization", value=0.8, where=recipe),
        Setting(variable="vllm_env", key="HF_TOKEN", value="hf_secretsecret", where=inventory),
    )


def build_background() -> Background:
    """Return the part that changes rarely."""
    log = "INFO started\nRuntimeError: CUDA error: an illegal memory access was encountered\n"
    return Background(
        links=build_links(),
        served=Served(
            url="http://192.168.1.11:8000/v1",
            model="gemma4-31b",
            recipe="gemma4-31b-fp8",
            deployment="5f3a9c21",
            executor="ray",
            tp=2,
            pp=1,
            hosts=HOSTS,
        ),
        settings=build_settings(),
        durations={
            "cluster.up gemma4-31b-fp8 2": {
                "Stage the weights": [3.1, 3.0, 2.9],
                "Start Ray": [9.8, 10.4, 9.9],
                "Wait until ready": [401.2, 388.0, 395.6],
            }
        },
        bench=build_bench(),
        versions={
            name: {"driver": "580.159.03", "vllm": "0.20.2", "ray": "2.60.0"} for name in HOSTS
        },
        diagnosis=diagnose_logs(
            LogBundle(logs=(LogFile(name="spark-01-serve.log", host="spark-01", text=log),))
        ),
    )


def build_content(**changed: Any) -> PageContent:
    """Return the content of a cluster that serves."""
    content = PageContent(
        at=AT,
        cluster="sparks",
        head=HOSTS[0],
        version="0.1.0",
        status=build_status(),
        hosts=HOSTS,
        rates={name: LinkRate(received=12.41, sent=12.38) for name in HOSTS},
        traffic={name: TrafficSample(at=1.0, received=10**12, sent=2 * 10**12) for name in HOSTS},
        carriers={name: {"enp1s0f0np0": True, "enP2p1s0f0np0": True} for name in HOSTS},
        events=(
            ClusterEvent(kind=EventKind.STARTED, text="nothing ran", at=AT - 90000, by="me@desk"),
            ClusterEvent(kind=EventKind.VERDICT, text="works", at=AT - 89000, state="serving"),
            ClusterEvent(
                kind=EventKind.RELAUNCHING,
                text="rank lost: rank 1 on spark-02 is lost",
                at=AT - 87000,
                cause="spark-02: the GPU fell off the bus [xid-79] spark-02-ray.log:812",
            ),
            ClusterEvent(kind=EventKind.RELAUNCHED, text="it serves again", at=AT - 86400),
        ),
        note="The watcher: serving; nothing to do",
        background=build_background(),
    )
    return replace(content, **changed)


def build_hostile(ending: str = HOSTILE) -> PageContent:
    """Return the same content, with `ending` after each text that is not sparkfleet's own."""
    content: PageContent = extend_texts(build_content(), ending)
    status = content.status
    health = {**status["health"], "state": "serving"}
    hosts = {name: {**host, "state": "running"} for name, host in status["hosts"].items()}
    return replace(content, status={**status, "health": health, "hosts": hosts})


def extend_texts(value: Any, ending: str) -> Any:
    """Return a value with `ending` after each text in it, and after each host that is a key."""
    if isinstance(value, enum.Enum | Where):
        return value
    if isinstance(value, str):
        return f"{value}{ending}"
    if isinstance(value, Mapping):
        return {
            f"{key}{ending}" if key in KEYS else key: extend_texts(item, ending)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(extend_texts(item, ending) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        names = [attribute.name for attribute in fields(value)]
        changed = {name: extend_texts(getattr(value, name), ending) for name in names}
        return replace(value, **changed)
    return value

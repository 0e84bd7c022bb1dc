"""The part of the page that changes rarely: links, deployment, benchmarks, versions; pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkfleet.doctor.diagnosis import Diagnosis
from sparkfleet.launch.endpoint.bench_history import BenchEntry
from sparkfleet.links.bandwidth.rates import MeasuredRate
from sparkfleet.page.content import Background, LinkMap, clean_page_text
from sparkfleet.page.tables import (
    Cell,
    Table,
    create_name,
    create_number,
    create_page_cell,
    create_page_table,
    format_time,
)
from sparkfleet.recipes.explanation import Setting

MAX_BENCHES = 10  # results that are in the table, the newest first
MAX_KINDS = 3  # kinds of runs whose timings are shown, the newest
MAX_FINDINGS = 10


def build_rail_table(links: LinkMap) -> Table:
    """Return each rail in use."""
    return create_page_table(
        "Rails",
        ("host", "port", "interface", "HCA", "address", "MTU", "Mb/s", "joins"),
        (
            (
                create_name(row.host),
                create_number("" if row.port is None else str(row.port)),
                create_page_cell(row.netdev, form="code"),
                create_page_cell(row.hca or "none", form="code"),
                create_page_cell(row.address, form="code"),
                create_number(str(row.mtu or "unknown")),
                _build_speed_cell(row.speed, carrier=row.carrier),
                create_page_cell(", ".join(row.peers) or "no host"),
            )
            for row in links.rows
        ),
        empty="No rail carries this cluster.",
    )


def _build_speed_cell(speed: int | None, *, carrier: bool) -> Cell:
    if not carrier:
        return create_page_cell("down", tone="bad")
    return create_number("unknown" if speed is None else str(speed))


def build_rate_table(links: LinkMap) -> Table:
    """Return the measured rates, and when they were measured."""
    measured = links.measured
    notes = []
    if measured:
        notes.append(f"Measured {format_time(measured.at.timestamp())}.")
        notes += [f"Refused links were accepted: {measured.degraded}."] if measured.degraded else []
        notes += [f"The next start measures again: {links.expiry}."] if links.expiry else []
    return create_page_table(
        "Measured rates",
        ("from", "to", "over", "Gb/s", "measured with"),
        (_build_rate_row(rate) for rate in (measured.rates if measured else ())),
        empty="No rates have been measured; the first start on two or more Sparks does so.",
        note=" ".join(notes),
    )


def _build_rate_row(rate: MeasuredRate) -> Iterator[Cell]:
    yield create_name(rate.host)
    yield create_name(rate.peer)
    share = " together" if len(rate.rails) > 1 else ", its part" if rate.sharing > 1 else ""
    yield create_page_cell(f"{', '.join(rate.rails)}{share}")
    yield create_page_cell(rate.why, tone="bad") if rate.why else create_number(f"{rate.gbps:.1f}")
    yield create_page_cell(rate.tool)


def build_verdict_table(links: LinkMap) -> Table:
    """Return what the static checks of the links have found, without what is as expected."""
    found = [verdict for verdict in links.verdicts if verdict.severity != "ok"]
    return create_page_table(
        "Checks of the links",
        ("host", "subject", "expected", "seen", "what to do"),
        (
            (
                create_name(verdict.host),
                create_page_cell(
                    f"{verdict.severity}: {verdict.subject}", tone=_tone(verdict.severity)
                ),
                create_page_cell(verdict.expected),
                create_page_cell(verdict.seen),
                create_page_cell(verdict.fix, form="prose"),
            )
            for verdict in found
        ),
        empty=f"All {len(links.verdicts)} checks passed.",
    )


def _tone(severity: str) -> str:
    return {"error": "bad", "warning": "warn"}.get(severity, "")


def build_setting_table(background: Background) -> Table:
    """Return each value of the deployment, the place that set it, and what it won over."""
    return create_page_table(
        "Values and their origin",
        ("name", "value", "set at", "instead of"),
        (_build_setting_row(setting) for setting in background.settings),
        empty=background.missing.get("settings") or "No values are known.",
    )


def _build_setting_row(setting: Setting) -> Iterator[Cell]:
    yield create_page_cell(setting.name, form="code")
    yield create_page_cell(setting.text, form="code")
    yield create_page_cell(setting.where or "unknown")
    over = [f"{_format_value(setting, value)} at {where}" for value, where in setting.over]
    yield create_page_cell("; ".join(over))


def _format_value(setting: Setting, value: Any) -> str:
    if setting.is_hidden:
        return "(secret)"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def build_duration_tables(background: Background) -> Iterator[Table]:
    """Yield a table for each kind of run: the seconds of its tasks in the last runs."""
    kinds = list(background.durations.items())[::-1]
    for kind, tasks in [item for item in kinds if item[0].startswith("cluster.")][:MAX_KINDS]:
        most = max(map(len, tasks.values()), default=0)
        heads = [f"run {at}" for at in range(1, most)] + (["newest"] if most else [])
        yield create_page_table(
            _format_run_kind(kind),
            ("task", *heads),
            (_build_duration_row(name, seconds, most) for name, seconds in tasks.items()),
            empty="No task took 2 s or more.",
            note="Seconds, in the last successful runs on this machine.",
        )


def _build_duration_row(name: str, seconds: Sequence[float], most: int) -> Iterator[Cell]:
    yield create_page_cell(name)
    yield from (create_number("") for _ in range(most - len(seconds)))
    yield from (create_number(f"{value:.1f}") for value in seconds)


def _format_run_kind(kind: str) -> str:
    task, _, rest = kind.partition(" ")
    recipe, _, count = rest.rpartition(" ")
    return f"{task} of {recipe or 'no recipe'} on {count} host{'' if count == '1' else 's'}"


def build_bench_table(entries: Sequence[BenchEntry]) -> Table:
    """Return the last results of `serve.bench`, the newest first."""
    return create_page_table(
        "Results",
        ("time", "recipe", "hosts", "requests", "prompt", "answer", "decode", "prefill", "TTFT"),
        (
            (
                create_name(format_time(entry.at)),
                create_page_cell(entry.recipe + (" (disturbed)" if entry.disturbed else "")),
                create_number(f"{entry.nodes:.0f}"),
                create_number(f"{entry.requests:.0f}"),
                create_number(f"{entry.context:.0f}"),
                create_number(f"{entry.answer:.0f}"),
                create_number(f"{entry.decode:.1f} tokens/s"),
                create_number(f"{entry.prefill:.1f} tokens/s"),
                create_number(f"{entry.ttft:.2f} s"),
            )
            for entry in entries[-MAX_BENCHES:][::-1]
        ),
        empty="No benchmark has been run.",
        note=_explain_disturbed(entries[-MAX_BENCHES:]),
    )


def _explain_disturbed(entries: Sequence[BenchEntry]) -> str:
    reasons = dict.fromkeys(entry.disturbed for entry in entries if entry.disturbed)
    return f"Disturbed: {'; '.join(reasons)}." if reasons else ""


def build_version_table(background: Background, hosts: Sequence[str]) -> Table:
    """Return versions, a column for each host."""
    names = dict.fromkeys(name for versions in background.versions.values() for name in versions)
    return create_page_table(
        "Versions",
        ("", *map(clean_page_text, hosts)),
        (
            (
                create_page_cell(name),
                *(
                    create_page_cell(_find_version(background.versions, host, name))
                    for host in hosts
                ),
            )
            for name in names
        ),
        empty=background.missing.get("versions") or "No versions are known.",
    )


def _find_version(versions: Mapping[str, Mapping[str, str]], host: str, name: str) -> str:
    return versions.get(host, {}).get(name) or "unknown"


def build_finding_table(diagnosis: Diagnosis | None, missing: str) -> Table:
    """Return what the doctor found in the logs of all hosts."""
    return create_page_table(
        "Findings",
        ("host", "finding", "what to do", "line"),
        _list_finding_rows(diagnosis) if diagnosis else (),
        empty=missing or "The logs show no known failure and no errors.",
    )


def _list_finding_rows(diagnosis: Diagnosis) -> Iterator[Iterator[Cell]]:
    for finding in (*diagnosis.causes, *diagnosis.warnings)[:MAX_FINDINGS]:
        is_cause = finding in diagnosis.causes
        yield iter(
            (
                create_name(finding.host),
                create_page_cell(
                    f"{'cause' if is_cause else 'may matter'}: {finding.cause} [{finding.id}]",
                    tone="bad" if is_cause else "warn",
                ),
                create_page_cell(finding.fix, form="prose"),
                create_page_cell(f"{finding.log}:{finding.line}: {finding.text}", form="code"),
            )
        )
    for error in diagnosis.errors:
        yield iter(
            (
                create_name(error.host),
                create_page_cell("first error, no known cause", tone="warn"),
                create_page_cell(""),
                create_page_cell(f"{error.log}:{error.line}: {error.text}", form="code"),
            )
        )

"""What `recipes.validate` prints."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sparkfleet.cli.asked import Asked
from sparkfleet.cli.screen import screen
from sparkfleet.errors import Problem, RecipeError, UsageError
from sparkfleet.launch import declared
from sparkfleet.launch.arguments import decided_by
from sparkfleet.model import Host, Severity
from sparkfleet.recipes.recipe import FOLDER, Recipe, load
from sparkfleet.recipes.rules import Judged, Known, judge, subject
from sparkfleet.recipes.rules.releases import parsed
from sparkfleet.recipes.settings import Settings
from sparkfleet.report import json
from sparkfleet.report.screens import Screen
from sparkfleet.report.text import MARKS
from sparkfleet.resources import listing

ALL = "all"
REFUSED = RecipeError.exit_code
TITLES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "advice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is wrong with one recipe; `problems` keep it from being read, or started."""

    name: str
    judged: tuple[Judged, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether a start would be refused."""
        return bool(self.problems) or any(one.severity is Severity.ERROR for one in self.judged)


def show_findings(asked: Asked, names: str, vllm: str) -> int:
    """Print what the rules find in the recipes `names`; return 5 if one would be refused."""
    if vllm and parsed(vllm) is None:
        raise UsageError(f"--vllm is a version, not {vllm!r}", hint="type: --vllm 0.21.0")
    reports = [_report(name, asked, vllm) for name in _chosen(names)]
    if not reports:
        raise UsageError(f"there is no recipe in {names}", hint="name one, or all")
    if asked.output == "json":
        json.write(json.document(recipes=[_entry(one) for one in reports]), sys.stdout)
    else:
        _print(reports)
    return REFUSED if any(one.refused for one in reports) else 0


def _chosen(names: str) -> Iterator[str]:
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name == ALL:
            yield from listing(FOLDER, ".yml")
        elif Path(name).is_dir():
            yield from (str(path) for path in sorted(Path(name).glob("*.yml")))
        else:
            yield name


def _report(name: str, asked: Asked, vllm: str) -> Report:
    try:
        recipe = load(name)
    except RecipeError as error:
        return Report(name=name, problems=error.problems)
    found = tuple(judged(recipe, tp=asked.tp, vllm=vllm))
    return Report(name=name, judged=found, problems=_undeclared(recipe))


def _undeclared(recipe: Recipe) -> tuple[Problem, ...]:
    """Return what keeps a start for a file or a model that an option names and nobody declares."""
    if "vllm_model" in recipe.vars:
        try:
            declared.arguments(Settings(host=Host(name=recipe.name, vars=recipe.vars)), "", "")
        except RecipeError as error:
            return error.problems
    return ()


def judged(recipe: Recipe, *, tp: int = 1, vllm: str = "") -> Iterator[Judged]:
    """Yield what the rules find in a recipe alone; its templates stay as they are written."""
    settings = Settings(host=Host(name=recipe.name, vars=recipe.vars))
    size = max(tp, recipe.tp_min or 1)
    yield from judge(
        subject(
            recipe,
            settings,
            known=Known(vllm=vllm, source="as given"),
            decided_by=decided_by,
            tp=size,
        )
    )


def _entry(report: Report) -> dict[str, Any]:
    return {
        "recipe": report.name,
        "refused": report.refused,
        "verdicts": [asdict(one.verdict(report.name)) for one in report.judged],
        "errors": [json.problem(one) for one in report.problems],
    }


def _print(reports: Sequence[Report]) -> None:
    out = screen(sys.stdout)
    for report in reports:
        if report.problems or report.judged:
            out.line(f"{report.name}:", "bold")
        for problem in report.problems:
            out.line(_text(problem, Severity.ERROR), MARKS[Severity.ERROR])
        for one in report.judged:
            out.line(_text(one.problem, one.severity), MARKS[one.severity])
    _print_count(reports, out)


def _text(problem: Problem, severity: Severity) -> str:
    return str(replace(problem, message=f"{TITLES[severity]}: {problem.message}"))


def _print_count(reports: Sequence[Report], out: Screen) -> None:
    counts = Counter(one.severity for report in reports for one in report.judged)
    counts[Severity.ERROR] += sum(len(report.problems) for report in reports)
    told = [_counted(counts[one], name) for one, name in TITLES.items() if counts[one]]
    style = "bold red" if any(report.refused for report in reports) else "bold green"
    count = _counted(len(reports), "recipe")
    out.line(f"{count}: {', '.join(told) or 'nothing to say'}", style)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("s" if count != 1 and noun != "advice" else "")

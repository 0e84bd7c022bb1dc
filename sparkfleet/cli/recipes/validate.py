"""`recipes.validate`: the findings of the rules."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sparkfleet.cli.recipes.options import ValidateOptions
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.errors import Problem, RecipeError, UsageError
from sparkfleet.launch import staged_paths
from sparkfleet.model import Host, Severity
from sparkfleet.recipes.recipe import FOLDER, Recipe, load_recipe
from sparkfleet.recipes.rules import ObservedFacts, RuleResult, apply_rules, build_rule_context
from sparkfleet.recipes.settings import Settings
from sparkfleet.report import json
from sparkfleet.report.screens import Screen
from sparkfleet.report.text import MARKS
from sparkfleet.resources import is_existing_folder, list_data_files
from sparkfleet.vllm.releases import parse_version

ALL = "all"
REFUSED = RecipeError.exit_code
TITLES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "advice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeReport:
    """Findings about one recipe; `problems` prevent it from being read, or started."""

    name: str
    findings: tuple[RuleResult, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether a start would be refused."""
        return bool(self.problems) or any(
            finding.severity is Severity.ERROR for finding in self.findings
        )


def show_findings(options: ValidateOptions) -> int:
    """Print what the rules find in the recipes; return 5 if one would be refused."""
    if options.vllm and parse_version(options.vllm) is None:
        raise UsageError(
            f"invalid --vllm {options.vllm!r}: expected a version", hint="type: --vllm 0.21.0"
        )
    reports = [_check_recipe(name, options) for name in _expand_recipe_names(options.names)]
    if not reports:
        raise UsageError(f"no recipe in {options.names!r}", hint="name one, or type: all")
    if options.json:
        print_document(recipes=[_serialize_report(report) for report in reports])
    else:
        _print_reports(reports)
    return REFUSED if any(report.refused for report in reports) else 0


def _expand_recipe_names(names: str) -> Iterator[str]:
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name == ALL:
            yield from list_data_files(FOLDER, ".yml")
        elif is_existing_folder(Path(name)):
            yield from (str(path) for path in sorted(Path(name).glob("*.yml")))
        else:
            yield name


def _check_recipe(name: str, options: ValidateOptions) -> RecipeReport:
    try:
        recipe = load_recipe(name)
    except RecipeError as error:
        return RecipeReport(name=name, problems=error.problems)
    findings = tuple(run_recipe_rules(recipe, tp=options.tp, vllm=options.vllm))
    return RecipeReport(name=name, findings=findings, problems=_find_undeclared(recipe))


def _find_undeclared(recipe: Recipe) -> tuple[Problem, ...]:
    """Return problems for files and models that an option names and the recipe does not declare."""
    if "vllm_model" in recipe.vars:
        try:
            staged_paths.resolve_vllm_args(
                Settings(host=Host(name=recipe.name, vars=recipe.vars)), "", ""
            )
        except RecipeError as error:
            return error.problems
    return ()


def run_recipe_rules(recipe: Recipe, *, tp: int = 1, vllm: str = "") -> Iterator[RuleResult]:
    """Yield what the rules find in a recipe alone; its templates stay as they are written."""
    settings = Settings(host=Host(name=recipe.name, vars=recipe.vars))
    size = max(tp, recipe.tp_min or 1)
    yield from apply_rules(
        build_rule_context(
            recipe,
            settings,
            facts=ObservedFacts(vllm=vllm, source="as given"),
            tp=size,
        )
    )


def _serialize_report(report: RecipeReport) -> dict[str, Any]:
    return {
        "recipe": report.name,
        "refused": report.refused,
        "verdicts": [asdict(entry.verdict(report.name)) for entry in report.findings],
        "errors": [json.serialize_problem(entry) for entry in report.problems],
    }


def _print_reports(reports: Sequence[RecipeReport]) -> None:
    out = create_screen(sys.stdout)
    for report in reports:
        if report.problems or report.findings:
            out.line(f"{report.name}:", "bold")
        for problem in report.problems:
            out.line(_format_problem(problem, Severity.ERROR), MARKS[Severity.ERROR])
        for finding in report.findings:
            out.line(_format_problem(finding.problem, finding.severity), MARKS[finding.severity])
    _print_count(reports, out)


def _format_problem(problem: Problem, severity: Severity) -> str:
    return str(replace(problem, message=f"{TITLES[severity]}: {problem.message}"))


def _print_count(reports: Sequence[RecipeReport], out: Screen) -> None:
    counts = Counter(entry.severity for report in reports for entry in report.findings)
    counts[Severity.ERROR] += sum(len(report.problems) for report in reports)
    parts = [
        _pluralize_count(counts[entry], name) for entry, name in TITLES.items() if counts[entry]
    ]
    style = "bold red" if any(report.refused for report in reports) else "bold green"
    count = _pluralize_count(len(reports), "recipe")
    out.line(f"{count} checked: {', '.join(parts) or 'no problems'}", style)


def _pluralize_count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("s" if count != 1 and noun != "advice" else "")

"""`recipes.validate`: the findings of the rules."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sparkfleet.cli.recipes.options import ValidateOptions
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.errors import InputError, Problem, RecipeError, UsageError
from sparkfleet.launch import staged_paths
from sparkfleet.launch.preflight.folder_checks import check_folder
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.recipes.recipe import FOLDER, Recipe, load_recipe
from sparkfleet.recipes.rules import (
    ObservedFacts,
    RuleResult,
    apply_rules,
    build_rule_context,
    list_cited_documents,
)
from sparkfleet.recipes.settings import Settings
from sparkfleet.report import json
from sparkfleet.report.screens import Screen
from sparkfleet.report.text import MARKS
from sparkfleet.resources import is_existing_folder, list_data_files
from sparkfleet.vllm.releases import parse_version

ALL = "all"
TITLES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "advice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeReport:
    """Findings about one recipe; `problems` prevent it from being read, or started.

    `verdicts` are those on the model's config.json, where a folder was named.
    """

    name: str
    findings: tuple[RuleResult, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether a start would be refused."""
        return bool(self.problems) or Severity.ERROR in self.severities

    @property
    def severities(self) -> tuple[Severity, ...]:
        """The severity of everything that was found, but of problems."""
        findings = (finding.severity for finding in self.findings)
        return (*findings, *(verdict.severity for verdict in self.verdicts))


def show_findings(options: ValidateOptions) -> int:
    """Print what the rules find in the recipes; return 5 if one would be refused."""
    if options.vllm and parse_version(options.vllm) is None:
        raise UsageError(
            f"--vllm: expected a version (got {options.vllm!r})", hint="type: --vllm 0.21.0"
        )
    reports = [_check_recipe(name, options) for name in _expand_recipe_names(options.names)]
    if not reports:
        raise UsageError(f"no recipe in {options.names!r}", hint="name one, or type: all")
    if options.json:
        print_document(recipes=[_serialize_report(report) for report in reports])
    else:
        _print_reports(reports)
    return RecipeError.exit_code if any(report.refused for report in reports) else 0


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
    facts = ObservedFacts(vllm=options.vllm, source="as given")
    verdicts: tuple[Verdict, ...] = ()
    findings = tuple(run_recipe_rules(recipe, tp=options.tp, pp=options.pp, facts=facts))
    if options.folder is not None:
        size = max(options.tp, recipe.tp_min or 1)
        try:
            facts, verdicts = check_folder(recipe, options.folder, facts, tp=size, pp=options.pp)
        except InputError:  # of an option that the rules refuse by its place, or of the folder
            if not any(finding.severity is Severity.ERROR for finding in findings):
                raise
        findings = tuple(run_recipe_rules(recipe, tp=options.tp, pp=options.pp, facts=facts))
    return RecipeReport(
        name=name,
        findings=findings,
        verdicts=verdicts,
        problems=_find_undeclared(recipe),
    )


def _find_undeclared(recipe: Recipe) -> tuple[Problem, ...]:
    """Return problems for files and models that an option names and the recipe does not declare."""
    if "vllm_model" in recipe.vars:
        try:
            staged_paths.resolve_staged_names(
                Settings(host=Host(name=recipe.name, vars=recipe.vars)), "", ""
            )
        except RecipeError as error:
            return error.problems
    return ()


def run_recipe_rules(
    recipe: Recipe, *, tp: int = 1, pp: int = 1, facts: ObservedFacts | None = None
) -> Iterator[RuleResult]:
    """Yield what the rules find in a recipe alone; its templates stay as they are written."""
    settings = Settings(host=Host(name=recipe.name, vars=recipe.vars))
    size = max(tp, recipe.tp_min or 1)
    yield from apply_rules(build_rule_context(recipe, settings, facts=facts, tp=size, pp=pp))


def _serialize_report(report: RecipeReport) -> dict[str, Any]:
    return {
        "recipe": report.name,
        "refused": report.refused,
        "verdicts": [
            asdict(entry)
            for entry in (
                *(found.verdict(report.name) for found in report.findings),
                *report.verdicts,
            )
        ],
        "errors": [json.serialize_problem(entry) for entry in report.problems],
    }


def _print_reports(reports: Sequence[RecipeReport]) -> None:
    out = create_screen(sys.stdout)
    for report in reports:
        if report.problems or report.findings or report.verdicts:
            out.line(f"{report.name}:", "bold")
        for problem in report.problems:
            out.line(_format_problem(problem, Severity.ERROR), MARKS[Severity.ERROR])
        for finding in report.findings:
            out.line(_format_problem(finding.problem, finding.severity), MARKS[finding.severity])
        for verdict in report.verdicts:
            problem = _build_problem(verdict)
            out.line(_format_problem(problem, verdict.severity), MARKS[verdict.severity])
    cited = [found.rule for report in reports for found in report.findings]
    for line in list_cited_documents(cited):
        out.line(f"source {line}")
    _print_count(reports, out)


def _build_problem(verdict: Verdict) -> Problem:
    message = f"{verdict.subject}: expected {verdict.expected}; saw {verdict.seen}"
    return Problem(message=message, hint=f"{verdict.check}: {verdict.source}\n{verdict.fix}")


def _format_problem(problem: Problem, severity: Severity) -> str:
    return str(replace(problem, message=f"{TITLES[severity]}: {problem.message}"))


def _print_count(reports: Sequence[RecipeReport], out: Screen) -> None:
    found = [severity for report in reports for severity in report.severities]
    found += [Severity.ERROR for report in reports for _ in report.problems]
    parts = [
        _pluralize_count(found.count(entry), name)
        for entry, name in TITLES.items()
        if entry in found
    ]
    style = "bold red" if any(report.refused for report in reports) else "bold green"
    count = _pluralize_count(len(reports), "recipe")
    out.line(f"{count} checked: {', '.join(parts) or 'no problems'}", style)


def _pluralize_count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("s" if count != 1 and noun != "advice" else "")

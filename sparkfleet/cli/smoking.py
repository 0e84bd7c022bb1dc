"""`serve.smoke`: whether what is served answers rightly, in every way its recipe promises."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from sparkfleet.actions.smoke import DEFAULT, TIMEOUT
from sparkfleet.cli.asked import Asked
from sparkfleet.cli.screen import screen
from sparkfleet.cli.serving import Site, site
from sparkfleet.launch import correctness
from sparkfleet.launch.correctness import Check
from sparkfleet.launch.replies import Reply
from sparkfleet.launch.sight import sight
from sparkfleet.report import json

FAILED = 2
TOOLS = {"tools": list(correctness.TOOLS), "tool_choice": "auto"}
THINK = {"chat_template_kwargs": correctness.THINK}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
MARKS = {True: ("ok", "green"), False: ("FAILED", "red"), None: ("skipped", "yellow")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Asks what is served, greedily; an answer has at most `tokens`."""

    site: Site
    tokens: int

    def ask(self, what: object, **extra: object) -> Reply:
        """Ask once; raises CommandError where the host cannot be asked."""
        endpoint = self.site.served.endpoint
        body = endpoint.body(what, tokens=self.tokens, extra=extra)
        return endpoint.post(self.site.link, body, timeout=TIMEOUT)


def run_checks(asked: Asked) -> int:
    """Ask, print a line a check, and return 0, or 2 if one failed."""
    with site(asked) as found:
        asker = Asker(site=found, tokens=found.settings.integer("vllm_smoke_tokens"))
        checks = []
        for check in _checks(asker):
            checks.append(check)
            if asked.output == "text":
                _show(check)
        advice = found.recipe.request
    failed = [check for check in checks if check.passed is False]
    if asked.output == "json":
        rows = [asdict(check) for check in checks]
        content = {"recipe": found.recipe.name, "model": found.served.about.served_name}
        json.write(json.document(**content, checks=rows, failed=len(failed)), sys.stdout)
    else:
        _sum_up(checks, advice)
    return FAILED if failed else 0


def _checks(asker: Asker) -> Iterator[Check]:
    questions = asker.site.recipe.smoke or (DEFAULT,)
    replies = []
    for question in questions:
        replies.append(asker.ask(question.ask))
        yield correctness.answered(question, replies[-1])
    first = questions[0]
    yield correctness.agreed(first, replies[0], asker.ask(first.ask))
    yield correctness.streamed(first, asker.ask(first.ask, **STREAM))
    yield from _tools(asker)
    yield _reasoning(asker)
    if asker.site.served.options.get("language-model-only"):
        yield correctness.skipped("vision", "it is served with --language-model-only")
    else:
        yield correctness.looked(asker.ask(sight()))


def _tools(asker: Asker) -> Iterator[Check]:
    options = asker.site.served.options
    parser = options.get("tool-call-parser")
    if not parser or not options.get("enable-auto-tool-choice"):
        why = "it is served without --enable-auto-tool-choice and --tool-call-parser"
        yield correctness.skipped("tool call", why)
        return
    asking = correctness.TOOL_ASK
    yield correctness.called(asker.ask(asking, **TOOLS), str(parser))
    yield correctness.called(asker.ask(asking, **TOOLS, **STREAM), str(parser), stream=True)


def _reasoning(asker: Asker) -> Check:
    parser = asker.site.served.options.get("reasoning-parser")
    if not parser:
        return correctness.skipped("reasoning", "it is served without --reasoning-parser")
    return correctness.thought(asker.ask(correctness.THINK_ASK, **THINK), str(parser))


def _show(check: Check) -> None:
    mark, style = MARKS[check.passed]
    out = screen(sys.stdout)
    if check.passed is None:
        asked = f"{check.asked}: " if check.asked else ""
        out.line(f"{mark:<8} {check.name}: {asked}{check.seen}", style)
        return
    text = f"{check.asked}: expected {check.expected}, saw {check.seen}"
    out.line(f"{mark:<8} {check.name}: {text}  {check.seconds:.1f} s", style)
    if check.fix:
        out.line(f"         {check.fix}")


def _sum_up(checks: list[Check], advice: tuple[str, ...]) -> None:
    out = screen(sys.stdout)
    counts = {passed: sum(check.passed is passed for check in checks) for passed in MARKS}
    told = (f"{count} {MARKS[passed][0]}" for passed, count in counts.items() if count)
    if counts[False]:
        for line in advice:
            out.line(f"the recipe on requests: {line}")
    out.line(f"{len(checks)} checks: {', '.join(told)}", "bold")

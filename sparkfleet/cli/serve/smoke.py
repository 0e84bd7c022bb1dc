"""`serve.smoke`: checks of what is served, in every way its recipe supports."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from sparkfleet.actions.check.smoke import DEFAULT, TIMEOUT
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.options import Options
from sparkfleet.cli.serve.session import ServeSession, open_serve_session
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.health import open_wait_display
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.errors import CommandError
from sparkfleet.launch.endpoint import correctness
from sparkfleet.launch.endpoint.answer_length import choose_answer_tokens
from sparkfleet.launch.endpoint.correctness import SmokeCheck
from sparkfleet.launch.endpoint.image_prompt import build_image_prompt
from sparkfleet.launch.endpoint.replies import STREAM, Reply
from sparkfleet.report.plurals import format_plural

TOOLS = {"tools": list(correctness.TOOLS), "tool_choice": "auto"}
THINK = {"chat_template_kwargs": correctness.REASONING_ARGUMENTS}
MARKS = {True: ("ok", "green"), False: ("FAILED", "red"), None: ("skipped", "yellow")}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeClient:
    """Sends requests with greedy sampling; an answer has at most `tokens`."""

    session: ServeSession
    tokens: int
    quiet: bool

    def send(self, content: object, **extra: object) -> Reply:
        """Send one request; raises LaunchError if there is no answer, so that no check follows."""
        endpoint = self.session.served.endpoint
        body = endpoint.body(content, tokens=self.tokens, extra=extra)
        try:
            with open_wait_display(quiet=self.quiet) as show:
                show(f"the answer to a request, {TIMEOUT:.0f} s at most")
                reply = endpoint.post(self.session.connection, body, timeout=TIMEOUT)
        except CommandError as error:
            raise self.session.explain_failure(error.message) from error
        if not reply.status:
            raise self.session.explain_failure(reply.refusal)
        return reply


def run_smoke_checks(options: Options) -> int:
    """Run the checks, print a line each, and return 0, or 2 if one failed."""
    with open_serve_session(options) as session:
        tokens = choose_answer_tokens(session.settings)
        client = SmokeClient(session=session, tokens=tokens, quiet=options.json)
        checks = []
        for check in _run_all_checks(client):
            checks.append(check)
            if not options.json:
                _print_check(check)
        advice = session.recipe.request
    failed = [check for check in checks if check.passed is False]
    if options.json:
        print_document(
            recipe=session.recipe.name,
            model=session.served.about.served_name,
            checks=[asdict(check) for check in checks],
            failed=len(failed),
        )
    else:
        _print_totals(checks, advice)
    return compute_exit_code(refused=bool(failed))


def _run_all_checks(client: SmokeClient) -> Iterator[SmokeCheck]:
    questions = client.session.recipe.smoke or (DEFAULT,)
    replies = []
    for question in questions:
        replies.append(client.send(question.ask))
        yield correctness.check_answer(question, replies[-1])
    first = questions[0]
    yield correctness.check_repeated_answer(first, replies[0], client.send(first.ask))
    yield correctness.check_stream(first, client.send(first.ask, **STREAM))
    yield from _check_tool_calls(client)
    yield _check_reasoning(client)
    if client.session.served.options.get("language-model-only"):
        yield correctness.skip_check("vision", "it is served with --language-model-only")
    else:
        yield correctness.check_vision(client.send(build_image_prompt()))


def _check_tool_calls(client: SmokeClient) -> Iterator[SmokeCheck]:
    options = client.session.served.options
    parser = options.get("tool-call-parser")
    if not parser or not options.get("enable-auto-tool-choice"):
        why = "it is served without --enable-auto-tool-choice and --tool-call-parser"
        yield correctness.skip_check("tool call", why)
        return
    question = correctness.TOOL_PROMPT
    yield correctness.check_tool_call(client.send(question, **TOOLS), str(parser))
    yield correctness.check_tool_call(
        client.send(question, **TOOLS, **STREAM), str(parser), stream=True
    )


def _check_reasoning(client: SmokeClient) -> SmokeCheck:
    parser = client.session.served.options.get("reasoning-parser")
    if not parser:
        return correctness.skip_check("reasoning", "it is served without --reasoning-parser")
    return correctness.check_reasoning(
        client.send(correctness.REASONING_PROMPT, **THINK), str(parser)
    )


def _print_check(check: SmokeCheck) -> None:
    mark, style = MARKS[check.passed]
    out = create_screen(sys.stdout)
    if check.passed is None:
        question = f"{check.asked}: " if check.asked else ""
        out.line(f"{mark:<8} {check.name}: {question}{check.seen}", style)
        return
    text = f"{check.asked}: expected {check.expected}, saw {check.seen}"
    out.line(f"{mark:<8} {check.name}: {text}  {check.seconds:.1f} s", style)
    if check.fix:
        out.line(f"         {check.fix}")


def _print_totals(checks: list[SmokeCheck], advice: tuple[str, ...]) -> None:
    out = create_screen(sys.stdout)
    counts = {passed: sum(check.passed is passed for check in checks) for passed in MARKS}
    parts = (f"{count} {MARKS[passed][0]}" for passed, count in counts.items() if count)
    if counts[False]:
        for line in advice:
            out.line(f"the recipe on requests: {line}")
    out.line(f"{format_plural(len(checks), 'check')}: {', '.join(parts)}", "bold")

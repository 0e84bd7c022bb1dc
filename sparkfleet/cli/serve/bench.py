"""`serve.bench`: the speed of what is served, one request alone and several at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.serve import bench_view
from sparkfleet.cli.serve.bench_history import save_bench_history
from sparkfleet.cli.serve.bench_prediction import BenchPrediction, predict_bench, save_measurement
from sparkfleet.cli.serve.bench_view import ServeBenchResult
from sparkfleet.cli.serve.options import ServeBenchOptions
from sparkfleet.cli.serve.session import ServeSession, open_serve_session
from sparkfleet.cli.views.health import open_wait_display
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import CommandError, LaunchError
from sparkfleet.fit.options import parse_token_limit
from sparkfleet.launch.endpoint import prompts
from sparkfleet.launch.endpoint.replies import STREAM, Reply
from sparkfleet.launch.endpoint.throughput import (
    Throughput,
    compare_speeds,
    compute_median,
    compute_throughput,
    find_published_speeds,
)
from sparkfleet.vllm.metrics import Sample, count_cached_tokens, count_foreign_tokens

REQUESTS = 4
CONTEXT = 2048
TIMEOUT = 600.0  # seconds, and one for each token; the first request of a shape compiles
BUSY = "other clients generated {} tokens during the benchmark; results are understated"
NO_METRICS = "/metrics unavailable: prefix-cache hits cannot be excluded from prefill throughput"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A benchmark's workload: requests at once, tokens of a prompt and of an answer, rounds."""

    requests: int
    context: int
    answer: int
    rounds: int

    @classmethod
    def from_options(cls, options: ServeBenchOptions, served: Mapping[str, Any]) -> Workload:
        """Return the workload for a deployment that serves with the options `served`.

        Values that the user did not give are chosen to fit it. Raises InputError.
        """
        most = parse_token_limit("max-model-len", served.get("max-model-len"))
        context_limit = CONTEXT if most is None else max(1, (most - options.answer) * 3 // 4)
        at_once = min(REQUESTS, int(served.get("max-num-seqs") or REQUESTS))
        return cls(
            requests=options.requests or at_once,
            context=options.context or min(CONTEXT, context_limit),
            answer=options.answer,
            rounds=options.rounds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRunner:
    """Sends rounds of requests; `notes` say why their figures may be wrong."""

    session: ServeSession
    workload: Workload
    quiet: bool
    notes: dict[str, None] = field(default_factory=dict)  # each once, in their order

    def measure(self) -> tuple[Throughput, ...]:
        """Return the pace of one request, and that of several at once where so many are wanted.

        Raises LaunchError for a request that is refused.
        """
        length = self._length()
        words = length.count_words(self.workload.context)
        counts = dict.fromkeys((1, self.workload.requests))
        return tuple(self._rounds(count, words) for count in counts)

    def _length(self) -> prompts.PromptLength:
        few, many = (
            self._send([prompts.generate_prompt(words)], answer=1)[0].prompt_tokens or 0
            for words in (prompts.FEW, prompts.MANY)
        )
        return prompts.estimate_prompt_length(few, many)

    def _rounds(self, count: int, words: int) -> Throughput:
        self._send(
            [prompts.generate_prompt(words) for _ in range(count)], answer=2
        )  # kernels of the shape
        return compute_median(tuple(self._paces(count, words)))

    def _paces(self, count: int, words: int) -> Iterator[Throughput]:
        before = self._sample()
        for number in range(1, self.workload.rounds + 1):
            texts = [prompts.generate_prompt(words) for _ in range(count)]
            replies = self._send(texts, answer=self.workload.answer)
            after = self._sample()
            measured = compute_throughput(replies, self._cached(before, after, replies))
            before = after
            if not self.quiet and self.workload.rounds > 1:  # one is what the table shows
                pace = bench_view.format_pace(measured)
                print_lines(f"  round {number} of {self.workload.rounds}: {pace}")
            yield measured

    def _cached(self, before: Sample | None, after: Sample | None, replies: Sequence[Reply]) -> int:
        if before is None or after is None:
            self.notes[NO_METRICS] = None
            return 0
        if foreign_tokens := count_foreign_tokens(
            before, after, sum(reply.tokens or 0 for reply in replies)
        ):
            self.notes[BUSY.format(foreign_tokens)] = None
        return count_cached_tokens(before, after)

    def _send(self, texts: Sequence[str], *, answer: int) -> tuple[Reply, ...]:
        endpoint = self.session.served.endpoint
        connection = self.session.connection
        extra = {**STREAM, "ignore_eos": True}
        bodies = [endpoint.body(text, tokens=answer, extra=extra) for text in texts]
        timeout = TIMEOUT + answer
        try:
            with open_wait_display(quiet=self.quiet) as show:
                show(f"the answers to {len(bodies)} requests, {timeout:.0f} s at most")
                replies = endpoint.post_all(connection, bodies, timeout=timeout)
        except CommandError as error:
            raise self.session.explain_failure(error.message) from error
        if silent := next((reply for reply in replies if not reply.status), None):
            raise self.session.explain_failure(silent.refusal)
        for reply in replies:
            if reply.refusal or not reply.ended:
                raise LaunchError(
                    reply.refusal or f"a stream ended early: {reply.error or 'no [DONE]'}",
                    host=connection.host.name,
                    hint="reduce --context, --answer or --requests; logs: {task:cluster.logs}",
                )
        return replies

    def _sample(self) -> Sample | None:
        vitals = self.session.query_vitals(self.session.connection, samples=1)
        return next(iter(vitals.samples), None)


def run_bench(options: ServeBenchOptions) -> int:
    """Measure, print, and return 0, or 2 under half of what was published.

    Undisturbed measurements are kept on the head, for `recipes.fit`, and all results for
    `cluster.report`.
    """
    with open_serve_session(options) as session:
        workload = Workload.from_options(options, session.served.options)
        if not options.json:
            print_lines(f"prompts of {workload.context} tokens, answers of {workload.answer}")
        runner = BenchRunner(session=session, workload=workload, quiet=options.json)
        paces = runner.measure()
        prediction = predict_bench(options, session, paces)
        bench = _build_bench(session, paces, prediction, runner.notes)
        if prediction.samples and not (bench.slow or runner.notes):
            save_measurement(session, paces, prediction.samples)
        save_bench_history(session, paces, tuple(runner.notes))
    bench_view.show_bench(bench, output=options.output)
    return compute_exit_code(refused=bool(bench.slow))


def _build_bench(
    session: ServeSession,
    paces: Sequence[Throughput],
    prediction: BenchPrediction,
    notes: Iterable[str],
) -> ServeBenchResult:
    about = session.served.about
    rows = [
        find_published_speeds(session.recipe.speeds, len(about.hosts), entry) for entry in paces
    ]
    return ServeBenchResult(
        recipe=about.recipe,
        model=about.served_name,
        nodes=len(about.hosts),
        paces=tuple(paces),
        rows=tuple(row for speeds in rows for row in speeds),
        compared=tuple(
            entry
            for speeds, measured in zip(rows, paces, strict=True)
            for entry in compare_speeds(speeds, measured)
        ),
        rates=prediction.rates,
        notes=(*notes, *prediction.why),
    )

"""`serve.bench`: how fast what is served answers, one request alone and several at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.cli import bench_report
from sparkfleet.cli.asked import Asked, number
from sparkfleet.cli.bench_report import Bench
from sparkfleet.cli.bounds import Bounds, bounds, keep
from sparkfleet.cli.screen import say
from sparkfleet.cli.serving import Site, site
from sparkfleet.errors import LaunchError
from sparkfleet.fit.options import tokens
from sparkfleet.launch import processes, prompts
from sparkfleet.launch.load import Sample, strangers, uncounted
from sparkfleet.launch.pace import Pace, compared, middle, pace, published
from sparkfleet.launch.replies import Reply
from sparkfleet.launch.vitals import ask_vitals
from sparkfleet.recipes.settings import Settings

SLOW = 2
MOST_REQUESTS = 1024
REQUESTS, CONTEXT, ANSWER, ROUNDS = 4, 2048, 128, 3
TIMEOUT = 600.0  # s without a token; the first request of a shape compiles
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
BUSY = "others asked meanwhile: {} tokens that are not ours; figures are lower than they could be"
UNTOLD = "/metrics tells nothing: prompts that the prefix cache had would count as read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How much is asked: requests at once, tokens of a prompt and of an answer, rounds."""

    requests: int
    context: int
    answer: int
    rounds: int

    @classmethod
    def of(cls, options: Mapping[str, Any], served: Mapping[str, Any]) -> Wanted:
        """Return what `options` of the task ask of a deployment with the options `served`.

        What was not asked for is made to fit it. Raises UsageError and InputError.
        """
        most = tokens("max-model-len", served.get("max-model-len"))
        answer = number("answer", options["answer"], ANSWER)
        room = CONTEXT if most is None else max(1, (most - answer) * 3 // 4)
        at_once = min(REQUESTS, int(served.get("max-num-seqs") or REQUESTS))
        return cls(
            requests=number("requests", options["requests"], at_once, most=MOST_REQUESTS),
            context=tokens("--context", options["context"]) or min(CONTEXT, room),
            answer=answer,
            rounds=number("rounds", options["rounds"], ROUNDS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Sends rounds of requests; `notes` are what makes their figures less than they seem."""

    site: Site
    wanted: Wanted
    quiet: bool
    notes: dict[str, None] = field(default_factory=dict)  # each once, in their order

    def measure(self) -> tuple[Pace, ...]:
        """Return the pace of one request, and that of several at once where so many are wanted.

        Raises LaunchError for a request that is refused.
        """
        length = self._length()
        words = length.words(self.wanted.context)
        counts = dict.fromkeys((1, self.wanted.requests))
        return tuple(self._rounds(count, words) for count in counts)

    def _length(self) -> prompts.Length:
        few, many = (
            self._send([prompts.prompt(words)], answer=1)[0].prompt_tokens or 0
            for words in (prompts.FEW, prompts.MANY)
        )
        return prompts.length(few, many)

    def _rounds(self, count: int, words: int) -> Pace:
        self._send([prompts.prompt(words) for _ in range(count)], answer=2)  # kernels of the shape
        return middle(tuple(self._paces(count, words)))

    def _paces(self, count: int, words: int) -> Iterator[Pace]:
        before = self._sample()
        for turn in range(1, self.wanted.rounds + 1):
            texts = [prompts.prompt(words) for _ in range(count)]
            replies = self._send(texts, answer=self.wanted.answer)
            after = self._sample()
            found = pace(replies, self._cached(before, after, replies))
            before = after
            if not self.quiet:
                say(f"  round {turn} of {self.wanted.rounds}: {bench_report.told(found)}")
            yield found

    def _cached(self, before: Sample | None, after: Sample | None, replies: Sequence[Reply]) -> int:
        if before is None or after is None:
            self.notes[UNTOLD] = None
            return 0
        if other := strangers(before, after, sum(reply.tokens or 0 for reply in replies)):
            self.notes[BUSY.format(other)] = None
        return uncounted(before, after)

    def _send(self, texts: Sequence[str], *, answer: int) -> tuple[Reply, ...]:
        endpoint, link = self.site.served.endpoint, self.site.link
        extra = {**STREAM, "ignore_eos": True}
        bodies = [endpoint.body(text, tokens=answer, extra=extra) for text in texts]
        replies = endpoint.together(link, bodies, timeout=TIMEOUT + answer)
        for reply in replies:
            if reply.refusal or not reply.ended:
                raise LaunchError(
                    reply.refusal or f"a stream broke off: {reply.error or 'no [DONE]'}",
                    host=link.host.name,
                    hint="less at once: --context, --answer, --requests; its log: cluster.logs",
                )
        return replies

    def _sample(self) -> Sample | None:
        link, cluster = self.site.link, self.site.resolved.cluster.name
        place = processes.place(Settings(host=link.host), cluster)
        port = self.site.served.about.port
        return next(iter(ask_vitals(link, place, port=port, looks=1).samples), None)


def run_bench(asked: Asked, options: Mapping[str, Any]) -> int:
    """Measure, print, and return 0, or 2 where less than half of what was published was reached.

    What was measured without a disturbance is kept on the head, for `recipes.fit`.
    """
    Wanted.of(options, {})  # what is wrong there is told before a host is asked
    with site(asked) as found:
        wanted = Wanted.of(options, found.served.options)
        if asked.output == "text":
            say(f"prompts of {wanted.context} tokens, answers of {wanted.answer}")
        runner = Runner(site=found, wanted=wanted, quiet=asked.output == "json")
        paces = runner.measure()
        limits = bounds(asked, found, paces)
        bench = _bench(found, paces, limits, runner.notes)
        if limits.samples and not (bench.slow or runner.notes):
            keep(found, paces, limits.samples)
    bench_report.show(bench, output=asked.output)
    return SLOW if bench.slow else 0


def _bench(found: Site, paces: Sequence[Pace], limits: Bounds, notes: Iterable[str]) -> Bench:
    about = found.served.about
    rows = [published(found.recipe.speeds, len(about.hosts), one) for one in paces]
    return Bench(
        recipe=about.recipe,
        model=about.served_name,
        nodes=len(about.hosts),
        paces=tuple(paces),
        rows=tuple(row for some in rows for row in some),
        compared=tuple(
            one for some, own in zip(rows, paces, strict=True) for one in compared(some, own)
        ),
        rates=limits.rates,
        notes=(*notes, *limits.why),
    )

"""Throughput of requests, and its comparison with published figures."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.cli.options import parse_options
from sparkfleet.cli.serve.bench import Workload
from sparkfleet.cli.serve.bench_view import ServeBenchResult, show_bench
from sparkfleet.cli.serve.options import ServeBenchOptions
from sparkfleet.errors import InputError
from sparkfleet.launch.endpoint import prompts
from sparkfleet.launch.endpoint.replies import Reply
from sparkfleet.launch.endpoint.throughput import (
    Throughput,
    compare_speeds,
    compute_median,
    compute_throughput,
    find_published_speeds,
)
from sparkfleet.recipes.metadata import Speed
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.vllm.metrics import count_foreign_tokens

NOTHING = ServeBenchOptions(task="serve.bench")


def reply(began: float, first: float, last: float, *, read: int = 2048, made: int = 128) -> Reply:
    return Reply(
        status=200,
        seconds=last,
        began=began,
        first=first,
        last=last,
        prompt_tokens=read,
        tokens=made,
        ended=True,
    )


def measured(**fields: float) -> Throughput:
    default: dict[str, Any] = {"requests": 1, "context": 2051, "answer": 128, "ttft": 1.0}
    return Throughput(**(default | {"prefill": 1500.0, "decode": 6.5} | fields))


def test_one_request_is_read_until_its_first_token_and_decoded_after_it() -> None:
    found = compute_throughput([reply(100.0, 2.0, 22.0, made=129)])
    assert (found.requests, found.context, found.ttft) == (1, 2048, 2.0)
    assert found.prefill == 1024.0
    assert found.decode == 128 / 20


def test_requests_together_count_from_the_first_token_of_any_to_the_last_of_all() -> None:
    found = compute_throughput(
        [reply(100.0, 2.0, 22.0, made=101), reply(100.5, 3.5, 25.5, made=101)]
    )
    assert found.ttft == 2.75
    assert found.prefill == 4096 / 4.0
    assert found.decode == 200 / 24.0


def test_what_the_prefix_cache_had_was_not_read() -> None:
    assert compute_throughput([reply(0.0, 2.0, 22.0)], cached=2000).prefill == 24.0


def test_the_median_of_each_figure_counts() -> None:
    rounds = [measured(decode=4.0, ttft=3.0), measured(decode=7.0), measured(decode=6.0, ttft=2.0)]
    assert (compute_median(rounds).decode, compute_median(rounds).ttft) == (6.0, 2.0)


@pytest.mark.parametrize(
    ("context", "wanted"),
    [(128, {0}), (2051, {0}), (4000, {4096}), (9000, {8192}), (90000, {16384})],
)
def test_the_nearest_shorter_context_is_compared(context: float, wanted: set[int]) -> None:
    speeds = load_recipe("gemma4-31b-fp8").speeds
    rows = find_published_speeds(speeds, 2, measured(context=context))
    assert {row.context for row in rows} == wanted
    assert all(row.nodes == 2 for row in rows)


def test_rows_of_as_many_requests_are_compared() -> None:
    speeds = load_recipe("gemma4-31b-fp8").speeds
    assert {row.requests for row in find_published_speeds(speeds, 1, measured(requests=4))} == {4}
    assert find_published_speeds(speeds, 2, measured(requests=4)) == ()
    assert find_published_speeds((), 1, measured()) == ()


def test_decode_is_held_against_the_best_and_prefill_against_the_slowest() -> None:
    rows = (
        Speed(nodes=1, source="a", date="2026-04", decode=6.9, prefill=600),
        Speed(nodes=1, source="b", date="2026-04", decode=6.5, prefill=1900),
    )
    decode, prefill = compare_speeds(rows, measured(decode=3.4, prefill=301.0))
    assert (decode.published, decode.slow, prefill.published, prefill.slow) == (
        6.9, True, 600, False
    )  # fmt: skip
    assert not compare_speeds(rows, measured(decode=3.5))[0].slow
    assert compare_speeds((Speed(nodes=1, source="a", date="2026-04", ttft=1.0),), measured()) == ()


def test_a_slow_one_says_by_how_much_and_what_to_look_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = Speed(nodes=2, source="dual-Spark document", date="2026-04", decode=11.2)
    one = measured(decode=2.1)
    bench = ServeBenchResult(
        recipe="r",
        model="m",
        nodes=2,
        paces=(one,),
        rows=(row,),
        compared=compare_speeds((row,), one),
        rates=(),
        notes=("n",),
    )
    show_bench(bench, output="text")
    out = capsys.readouterr().out
    assert "slow: decode of 1 request is 2.1 tok/s, 19% of the published 11.2" in out
    assert "what to check:\n  sparkfleet links.verify" in out
    assert "NET/Socket" in out
    assert "note: n" in out
    head, values = out.splitlines()[:2]
    assert head.split()[:3] == ["requests", "first", "token"]
    assert values.split()[:6] == ["1", f"{one.ttft:.2f}", "s", f"{one.prefill:.0f}", "tok/s", "2.1"]


def test_prompts_get_the_length_that_is_asked_for() -> None:
    base = 20
    word = 4.5
    few, many = (round(base + count * word) for count in (prompts.FEW, prompts.MANY))
    words = prompts.estimate_prompt_length(few, many).count_words(2000)
    assert abs(base + words * word - 2000) < 10
    assert prompts.estimate_prompt_length(few, many).count_words(1) == 1


def test_no_two_prompts_begin_alike() -> None:
    assert len({prompts.generate_prompt(40)[:12] for _ in range(50)}) == 50


def test_what_was_not_asked_for_is_made_to_fit() -> None:
    assert Workload.from_options(NOTHING, {}) == Workload(
        requests=4, context=2048, answer=128, rounds=3
    )
    small = Workload.from_options(NOTHING, {"max-model-len": "256", "max-num-seqs": "2"})
    assert (small.requests, small.context) == (2, 96)
    given = parse_options(ServeBenchOptions, "serve.bench", {"requests": "8", "context": "16K"})
    assert Workload.from_options(given, {"max-model-len": "256"}).context == 16384
    with pytest.raises(InputError, match="--requests: expected an integer"):
        parse_options(ServeBenchOptions, "serve.bench", {"requests": "many"})


def test_tokens_of_others_are_reported_separately() -> None:
    name = "vllm:generation_tokens_total"
    assert count_foreign_tokens({"at": 0.0, name: 100.0}, {"at": 1.0, name: 260.0}, 128) == 32
    assert count_foreign_tokens({"at": 0.0, name: 100.0}, {"at": 1.0, name: 228.0}, 128) == 0

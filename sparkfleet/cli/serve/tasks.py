"""`serve.*`: the endpoint of a cluster that serves: is it right, is it fast, what does it do."""

from __future__ import annotations

from typing import Any

from sparkfleet.cli.command import command
from sparkfleet.cli.options import parse_options

REPEATED = ["inventory", "set"]
RECIPE = "the file of what is served, where it is a recipe of your own"


@command(iterable=REPEATED, help={"recipe": RECIPE})
def smoke(
    context: Any,
    *,
    inventory: Any = None,
    recipe: str | None = None,
    cluster: str | None = None,
    set: Any = None,  # noqa: A002 - the option's name
    output: str | None = None,
) -> int:
    """Prove what is served: answers, tool calls, thoughts, images, streams; ends with 2 if not.

    Asks from the head, so no port has to be reachable from here. What the deployment was not
    started for, such as tools without a parser, is not asked, and a line says so.

      {task:serve.smoke}
      {task:serve.smoke} --set vllm_smoke_tokens=2000    for a model that thinks for long
    """
    from sparkfleet.cli.serve.smoke import run_smoke_checks  # noqa: PLC0415 - Fabric: not for --list

    return run_smoke_checks(parse_options("serve.smoke", locals()))


@command(
    iterable=REPEATED,
    help={
        "every": "seconds between two looks",
        "count": "end after so many looks",
        "output": "text, or json: a document on a line for each look",
    },
)
def watch(
    context: Any,
    *,
    every: str | None = None,
    count: str | None = None,
    inventory: Any = None,
    cluster: str | None = None,
    set: Any = None,  # noqa: A002 - the option's name
    output: str | None = None,
) -> int:
    """Watch what is served until Ctrl-C: tokens a second, requests, KV cache, memory of each host.

    Rates and times are those since the last look, from vLLM's own counters. On a terminal the
    picture stays in place; in a file or a pipe each look is a line.

      {task:serve.watch}
      {task:serve.watch} --every 10s --count 6 > minute.log
    """
    from sparkfleet.cli.serve.watch import watch_load  # noqa: PLC0415 - Fabric: not for --list

    return watch_load(parse_options("serve.watch", locals()), every=every, count=count)


@command(
    iterable=REPEATED,
    help={
        "requests": "how many at once, after one alone; 4 unless it serves fewer",
        "context": "tokens of a prompt, as 2048 or 16K",
        "answer": "tokens of an answer",
        "recipe": RECIPE,
        "rounds": "how often each is measured; the median counts",
    },
)
def bench(  # noqa: PLR0913 - its options
    context_: Any,
    *,
    requests: str | None = None,
    context: str | None = None,
    answer: str | None = None,
    rounds: str | None = None,
    inventory: Any = None,
    recipe: str | None = None,
    cluster: str | None = None,
    set: Any = None,  # noqa: A002 - the option's name
    output: str | None = None,
) -> int:
    """Measure how fast what is served answers, beside what was published and what is expected.

    One request alone, then several at once, from the head, so that the way from here does not
    count. No prompt is asked twice. Ends with 2 under half of what the recipe's source published.

      {task:serve.bench}
      {task:serve.bench} --requests 8 --context 16K --answer 256 --rounds 5
    """
    from sparkfleet.cli.serve.bench import run_bench  # noqa: PLC0415 - Fabric: not for --list

    return run_bench(parse_options("serve.bench", locals()), locals())

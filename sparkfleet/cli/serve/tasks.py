"""`serve.*`: the endpoint of a cluster that serves: correctness, load and speed."""

from __future__ import annotations

from sparkfleet.cli.command import command
from sparkfleet.cli.options import CLUSTER, OUTPUT, RECIPE, Options
from sparkfleet.cli.serve.options import ServeBenchOptions, WatchOptions

RECIPE_HELP = "the recipe file of the served model, if it is your own"


@command("serve.smoke", CLUSTER, RECIPE, OUTPUT, help={"recipe": RECIPE_HELP})
def smoke(options: Options) -> int:
    """Check what is served: answers, tool calls, reasoning, images, streams; exits with 2 if wrong.

    Sends requests from the head, so no port has to be reachable from here. Checks of features that
    the deployment does not enable, such as tool calls without a parser, are shown as skipped.

      {task:serve.smoke}
      {task:serve.smoke} --set vllm_smoke_tokens=2000    for a model that thinks for long
    """
    from sparkfleet.cli.serve.smoke import run_smoke_checks

    return run_smoke_checks(options)


@command(
    "serve.watch",
    CLUSTER,
    OUTPUT,
    help={"output": "text, or json: a document on a line for each sample"},
)
def watch(options: WatchOptions) -> int:
    """Watch what is served until Ctrl-C: tokens a second, requests, KV cache, health, each host.

    Rates and times are those since the last sample, from vLLM's own counters. Of each host: memory,
    power, temperature and clock of the GPU and what slows it, and the rate of the ranks' links. On
    a terminal the display is updated in place; in a file or a pipe each sample is a line.

      {task:serve.watch}
      {task:serve.watch} --once
      {task:serve.watch} --every 10s --count 6 > minute.log
    """
    from sparkfleet.cli.serve.watch import watch_load

    return watch_load(options)


@command("serve.bench", CLUSTER, RECIPE, OUTPUT, help={"recipe": RECIPE_HELP})
def bench(options: ServeBenchOptions) -> int:
    """Measure the speed of what is served, and compare it with published and expected figures.

    Sends one request, then several at once, from the head, so that your network does not count. No
    prompt is sent twice. Exits with 2 if the speed is less than half of what the recipe's source
    published.

      {task:serve.bench}
      {task:serve.bench} --requests 8 --context 16K --answer 256 --rounds 5
    """
    from sparkfleet.cli.serve.bench import run_bench

    return run_bench(options)

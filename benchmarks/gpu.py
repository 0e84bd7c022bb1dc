"""Times the main job on real GPUs, one for each lab host, and a model with real work.

``sudo python benchmarks/gpu.py [--only start|work] [--traces FOLDER]``. Boots a lab of two hosts
with `lab.up --gpus` (``invoke lab.engine --gpu``, ``lab.model --gpu``), so none may run. With one
GPU the hosts share it, and only one works on the large model.

start: `cluster.up --tp 2` of the tiny model with Ray and with mp, from nothing, by the trace of the
run: all, vLLM's share (until ready, first answer), Ray's join, and the rest, which is sparkfleet's;
then a second run. The targets: sparkfleet at most 5 s, the join at most 3 s.

work: the shape of Llama 3 8B with random weights, in bfloat16: one GPU, two with TP=2 and two
copies, `serve.bench` with 1 and 16 requests of 2048 tokens. The prediction is that of `recipes.fit`
with the published terms, its bandwidth scaled from a Spark's memory (273 GB/s) to `--bandwidth`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sparkfleet.fit.cost_model import PUBLISHED, DecodeStep
from sparkfleet.lab import fleet
from sparkfleet.lab.engine import install, model
from sparkfleet.lab.engine.kinds import GPU
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.lab.host.gpus import choose_gpus, find_gpus
from tests.commandline import command_line
from tests.gpu.large_model import CONFIG, PARAMETERS, write_large_model

OURS = 5.0  # seconds of a first start
JOIN = 3.0  # seconds
SPARK = 273e9  # bytes/s of a Spark's memory
H200 = 4.8e12  # the same of an H200: NVIDIA's datasheet
ENGINE = ("Wait until every rank is ready", "Warm up", "Smoke prompt")
RAY = "Join gate"
ALONE = "one GPU"
SHAPES: Mapping[str, Sequence[str]] = {
    ALONE: ("--solo",),
    "TP=2": ("--tp", "2", "--executor", "mp"),
    "two copies": ("--dp", "2", "--executor", "mp"),
}


class Bench:
    """The lab, and how a command line is run on it."""

    def __init__(self, lab: LabFleet, traces: Path) -> None:
        self._lab = lab
        self.traces = traces

    def must(self, *words: str) -> str:
        """Run a command line that must end with 0; return its output."""
        line = command_line(*words, "--inventory", str(self._lab.inventory))
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout


def read_spans(path: Path) -> dict[str, float]:
    """Return the seconds of each task of a trace, and of all as ""."""
    document = json.loads(path.read_text())
    spans = [one for one in document["traceEvents"] if one["ph"] == "X" and one["tid"] == 0]
    times = {one["name"]: one["dur"] / 1e6 for one in spans}
    return {**times, "": max(one["ts"] + one["dur"] for one in spans) / 1e6}


def measure_start(bench: Bench, executor: str) -> bool:
    """Print what a first start and a second run take; return whether the targets are met."""
    bench.must("cluster.down")
    path = bench.traces / f"{executor}.json"
    words = ("cluster.up", "--tp", "2", "--executor", executor)
    bench.must(*words, "--trace", str(path))
    spans = read_spans(path)
    engine, join = sum(spans.get(name, 0) for name in ENGINE), spans.get(RAY, 0)
    ours = spans[""] - engine - join
    began = time.perf_counter()
    bench.must(*words)
    again = time.perf_counter() - began
    print(
        f"{executor:4} all {spans['']:.1f} s: vLLM {engine:.1f}, join {join:.1f}, "
        f"sparkfleet {ours:.1f};"
        f" again {again:.1f} s",
        flush=True,
    )
    for name, seconds in sorted(spans.items(), key=lambda item: -item[1])[1:9]:
        print(f"       {seconds:6.2f} s  {name}")
    return ours <= OURS and join <= JOIN


def measure_work(
    bench: Bench, folder: Path, bandwidth: float, shapes: Mapping[str, Sequence[str]]
) -> None:
    """Print the speed of a model with real work on one GPU, on both, and as two copies."""
    recipe = write_large_model(folder, model.locate_lab_model(GPU))
    for name, words in shapes.items():
        began = time.perf_counter()
        source = f"weights_source={recipe.with_suffix('')}"  # not that of the inventory
        bench.must("cluster.up", *words, "--recipe", str(recipe), "--set", source)
        ready = time.perf_counter() - began
        print(f"{name}: served after {ready:.0f} s", flush=True)
        for requests in (1, 16):
            report = bench.must(
                *("serve.bench", "--requests", str(requests), "--context", "2048"),
                *("--answer", "128", "--rounds", "2", "--recipe", str(recipe), "--output", "json"),
            )
            pace = json.loads(report)["measured"][-1]
            print(f"  measured   {json.dumps(pace)}", flush=True)
        print(f"  predicted  1 request: decode {predict(name, bandwidth):.0f} tok/s", flush=True)
        bench.must("cluster.down")


def predict(name: str, bandwidth: float) -> float:
    """Return the tokens per second of one request, as the published terms have it."""
    ranks = 2 if name == "TP=2" else 1
    layers = int(str(CONFIG["num_hidden_layers"]))
    embeddings = int(str(CONFIG["vocab_size"])) * int(str(CONFIG["hidden_size"]))
    step = DecodeStep(
        read=2 * (PARAMETERS - embeddings) / ranks,
        parts=2 * layers,
        reduces=2 * layers if ranks > 1 else 0,
    )
    terms = replace(PUBLISHED, bandwidth=PUBLISHED.bandwidth * bandwidth / SPARK)
    return 1 / terms.seconds(step)


def main() -> int:
    """Measure, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("start", "work"))
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--bandwidth", type=float, default=H200, help="bytes/s of a GPU's memory")
    options = parser.parse_args()
    install.check_engine(GPU)
    model.ensure_model(print, GPU)
    met = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            fleet.remove_fleet()
            gpus = choose_gpus(find_gpus(), 2, share=True)
            lab = fleet.start_fleet(2, gpus=gpus)
            bench = Bench(lab, options.traces or folder)
            if options.only != "work":
                results = [measure_start(bench, executor) for executor in ("ray", "mp")]
                met = all(results)
            bench.must("cluster.down")
            if options.only != "start":
                shapes = SHAPES if len(set(gpus)) > 1 else {ALONE: SHAPES[ALONE]}
                measure_work(bench, folder, options.bandwidth, shapes)
        finally:
            fleet.remove_fleet()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

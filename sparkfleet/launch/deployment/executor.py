"""Select the vLLM executor that joins the ranks of several hosts; pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.launch.host.survey import Survey
from sparkfleet.recipes.settings import Settings

AUTO = "auto"
COPIES_WHY = (
    "auto: each copy is on one host; with mp the others go on when one dies, with Ray all stop"
)
MP_WHY = "auto: every host's vLLM has --nnodes; mp starts faster than Ray and uses less memory"


class Executor(enum.StrEnum):
    """Values of vLLM's ``--distributed-executor-backend``."""

    UNI = "uni"  # one rank in one process: the default of vLLM for one rank
    RAY = "ray"
    MP = "mp"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorChoice:
    """An executor, and the reason for it."""

    executor: Executor
    why: str

    def __str__(self) -> str:
        return f"executor {self.executor} ({self.why})"


def select_executor(
    settings: Settings, surveys: Mapping[str, Survey], *, nodes: int, copies: int = 1
) -> ExecutorChoice | None:
    """Return the executor by `vllm_executor` of the head's `settings`.

    ``auto`` selects mp where every vLLM supports several hosts, since it starts sooner and takes
    less memory (docs/engines.md has the figures), else Ray if every host has it. Copies of one host
    each always get mp, copies of several hosts Ray.
    `copies` are those of ``--dp``. None while an image has not been inspected yet.
    """
    if nodes == 1:
        return ExecutorChoice(executor=Executor.UNI, why="one rank")
    configured = settings.text("vllm_executor")
    if configured != AUTO:
        return ExecutorChoice(
            executor=Executor(configured), why=f"vllm_executor, {_format_executor_origin(settings)}"
        )
    if copies == nodes:
        return ExecutorChoice(executor=Executor.MP, why=COPIES_WHY)
    probes = {name: survey.probe for name, survey in surveys.items()}
    probed = {name: probe for name, probe in probes.items() if probe is not None}
    if len(probed) < len(probes):
        return None
    bare = [name for name, probe in probed.items() if "ray" not in probe.programs]
    if 1 < copies < nodes:
        lack = f"; Ray is missing on {', '.join(bare)}" if bare else ""
        why = f"auto: copies of several hosts need Ray{lack}"
        return ExecutorChoice(executor=Executor.RAY, why=why)
    old = [name for name, probe in probed.items() if not probe.nodes]
    if not old:
        return ExecutorChoice(executor=Executor.MP, why=MP_WHY)
    why = f"auto: vLLM without --nnodes on {', '.join(old)}"
    if bare:
        why = f"auto: no Ray on {', '.join(bare)}, vLLM without --nnodes on {', '.join(old)}"
    return ExecutorChoice(executor=Executor.RAY, why=why)


def _format_executor_origin(settings: Settings) -> str:
    given = "--executor or --set" if "vllm_executor" in settings.given else None
    return given or str(settings.origin("vllm_executor"))

"""The environment of every rank, each variable with the reason for its value; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from sparkfleet.launch.deployment import secrets
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.staged_paths import MODEL_PLACEHOLDER
from sparkfleet.links import EnvVar
from sparkfleet.onhost.shared import labels
from sparkfleet.recipes.rules.harmony_vocabulary import VOCABULARY_VARIABLE, find_vocabulary_folder
from sparkfleet.recipes.settings import Settings


def build_rank_environment(
    settings: Settings,
    fabric: Sequence[EnvVar],
    *,
    cluster: str,
    hf_home: str,
    model: str = "",
    engine: Sequence[EnvVar] = (),
    executor: Executor = Executor.RAY,
) -> tuple[EnvVar, ...]:
    """Return the variables of one host's ranks: base, engine, fabric, then user variables.

    Later ones override earlier ones. `hf_home` and the folder `model`, the value of ``@MODEL@`` in
    user variables, are paths as the ranks see them. `fabric` is empty in solo mode. A null from
    the user unsets the variable, even if the image or shell sets it.
    """
    merged = {
        variable.name: variable for variable in (*_list_base_variables(cluster, hf_home), *engine)
    }
    if fabric and executor is Executor.RAY:
        merged |= {variable.name: variable for variable in _list_ray_variables()}
    merged |= {
        variable.name: variable for variable in _list_vocabulary_variables(settings, hf_home)
    }
    merged |= {variable.name: variable for variable in fabric}
    merged |= {variable.name: variable for variable in _list_user_variables(settings, model)}
    return tuple(merged.values())


def _list_base_variables(cluster: str, hf_home: str) -> tuple[EnvVar, ...]:
    return (
        EnvVar(
            name=labels.CLUSTER_VARIABLE,
            value=cluster,
            why="label used to find this cluster's processes",
        ),
        EnvVar(
            name="SPT_NOENV", value="1", why="keeps the label in /proc when vLLM renames processes"
        ),
        EnvVar(name="HF_HOME", value=hf_home, why="weights_dir on this host"),
    )


def _list_ray_variables() -> tuple[EnvVar, ...]:
    return (
        EnvVar(
            name="RAY_memory_monitor_refresh_ms",
            value="0",
            why="Ray's memory monitor kills workers that load weights on unified memory",
        ),
        EnvVar(name="RAY_USAGE_STATS_ENABLED", value="0", why="disables usage reports"),
    )


def _list_vocabulary_variables(settings: Settings, hf_home: str) -> Iterator[EnvVar]:
    """Yield where OpenAI's vocabulary is, if `weights_files` stages it (openai/harmony#46)."""
    for text in settings.value("weights_files") or ():
        folder = find_vocabulary_folder(str(text))
        if folder is not None:
            yield EnvVar(
                name=VOCABULARY_VARIABLE,
                value=f"{hf_home}/{folder}" if folder else hf_home,
                why=f"weights_files stages {PurePosixPath(str(text)).name}",
            )


def _list_user_variables(settings: Settings, model: str) -> Iterator[EnvVar]:
    for name, value in settings.mapping("vllm_env").items():
        resolved = secrets.resolve_secret(settings, name, value)
        text = None if resolved is None else str(resolved).replace(MODEL_PLACEHOLDER, model)
        yield EnvVar(name=name, value=text, why=secrets.explain_env_variable(settings, name))

"""The format of a recipe file, decided by its keys: file names and a bare "2" say too little."""

from __future__ import annotations

from enum import StrEnum

from sparkfleet.errors import RecipeError, quote_value
from sparkfleet.variables import VARIABLES
from sparkfleet.yaml.nodes import Map


class Format(StrEnum):
    """The tool that a recipe was written for."""

    EUGR = "eugr"
    SPARKRUN = "sparkrun"
    SPARK_PULSE = "spark-pulse"
    NVIDIA = "NVIDIA"


NVIDIA_SCHEMAS = (3, 4)
VERSION_KEYS = ("recipe_version", "sparkrun_version")
VERSIONS = ("1", "2")
SPARKRUN_SIGNS = (
    "runtime",
    "runtime_version",
    "min_nodes",
    "max_nodes",
    "metadata",
    "executor_config",
    "distribution_config",
    "containers",
    "sparkrun_version",
    "min_sparkrun_version",
    "model_revision",
    "overrides",
    "include",
)
EUGR_SIGNS = ("container", "command", "build_args", "cluster_only", "solo_only")
OWN_KEYS = {*VARIABLES, "extends", "speeds", "why", "smoke"} - {"engine"}  # which spark-pulse has


def find_format(tree: Map) -> Format | None:
    """Return the format of a recipe file; None where it is sparkfleet's own.

    Raises RecipeError for a version of a known format that is not known.
    """
    if not OWN_KEYS.isdisjoint(tree.entries):
        return None
    if "schema_version" in tree.entries:
        _check_nvidia_schema(tree)
        return Format.NVIDIA
    known = _find_by_keys(tree)
    if known is not None or any(key in tree.entries for key in VERSION_KEYS):
        _check_version(tree)
    return known


def _find_by_keys(tree: Map) -> Format | None:
    keys = tree.entries.keys()
    if "engines" in keys or "params" in keys:
        return Format.SPARK_PULSE
    version = _read_version(tree)
    if version == "1":
        return Format.EUGR
    if any(key in keys for key in SPARKRUN_SIGNS):
        return Format.SPARKRUN
    if len(keys & set(EUGR_SIGNS)) > 1 or version is not None:
        return Format.EUGR
    return None


def _read_version(tree: Map) -> str | None:
    nodes = (tree.get(key) for key in VERSION_KEYS)
    return next((str(node.data) for node in nodes if node is not None), None)


def _check_version(tree: Map) -> None:
    for key in VERSION_KEYS:
        node = tree.get(key)
        if node is not None and str(node.data) not in VERSIONS:
            raise RecipeError(
                f"{key}: expected one of {', '.join(VERSIONS)} (got {quote_value(node.data)})",
                where=node.where,
                hint="sparkfleet reads recipes of eugr (1), sparkrun and spark-pulse (2)",
            )


def _check_nvidia_schema(tree: Map) -> None:
    node = tree.get("schema_version")
    if node is None or node.data in NVIDIA_SCHEMAS:
        return
    versions = " or ".join(map(str, NVIDIA_SCHEMAS))
    raise RecipeError(
        f"schema_version: expected {versions} (got {quote_value(node.data)})",
        where=node.where,
        hint="sparkfleet reads recipe.yaml of NVIDIA/local-ai-inference-recipes",
    )

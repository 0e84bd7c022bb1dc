"""Names of recipes of others."""

from __future__ import annotations

from pathlib import Path

ANONYMOUS = "recipe"  # the stem of every recipe of NVIDIA
USUAL = ("linux", "vllm")  # folders that say nothing about a recipe for a Spark


def name_recipe_file(path: Path) -> str:
    """Return the file's name; for NVIDIA's recipe.yaml that of the folders: model and hardware."""
    if path.stem != ANONYMOUS:
        return path.stem
    parts = path.absolute().parent.parts
    if "models" not in parts:
        return parts[-1]
    below = parts[len(parts) - parts[::-1].index("models") :]
    return "-".join(part for part in below[1:] if part not in USUAL)

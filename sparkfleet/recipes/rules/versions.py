"""Which vLLM a model needs, against the one that will run."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from sparkfleet.recipes.rules import releases
from sparkfleet.recipes.rules.models import GEMMA4_DENSE, is_a, is_gemma4, is_nvfp4
from sparkfleet.recipes.rules.releases import parsed
from sparkfleet.recipes.rules.rule import Finding, Rule
from sparkfleet.recipes.rules.subject import Subject

IMAGE = "take another image (engine_image), and ask it: vllm --version"
GEMMA4_LEAST = "0.19.0.dev0"  # research 1 has 0.19.0; the image gemma4-cu130 is a day older
# In 0.23.1rc1.dev309 (single-spark) and 0.24.0 (vllm-project/vllm#48238); 0.23.0 does not have it
# and 0.25.1 has mended it (their sources).
UNTIED_FROM, UNTIED_UNTIL = "0.23.1.dev0", "0.25"


def _requires(subject: Subject) -> Iterator[Finding]:
    for package, wanted in subject.recipe.requires.items():
        seen = subject.version if package == "vllm" else _installed(subject, package)
        version = parsed(seen)
        if version is None or _contains(wanted, version):
            continue
        yield Finding(
            subject=package,
            expected=f"{wanted}, for this recipe",
            seen=f"{seen} {subject.version_source}",
            where=subject.at(f"requires.{package}", "requires"),
            fix=IMAGE if package == "vllm" else f"{IMAGE}, or add it: engine_pip: [...]",
        )


def _installed(subject: Subject, package: str) -> str:
    packages = subject.known.packages
    return packages.get(package) or packages.get(f"{package}-python") or ""


def _contains(wanted: SpecifierSet, version: Version) -> bool:
    """Whether a version will do; one before a release counts as that release too."""
    release = Version(version.base_version)
    return any(wanted.contains(one, prereleases=True) for one in (version, release))


def _architecture(subject: Subject) -> Iterator[Finding]:
    version, least = parsed(subject.version), parsed(GEMMA4_LEAST)
    if version is None or least is None:
        return
    table = releases.table("architectures")
    known = subject.architecture and table.has(subject.architecture, subject.version)
    if known is False:
        first = table.first(subject.architecture)
        wanted = f"{first} or later" if first else "one with a plugin: no release has it"
        yield _too_old(subject, f"vLLM {wanted}, for {subject.architecture}")
    elif is_gemma4(subject) and version < least:
        yield _too_old(subject, "vLLM 0.19.0 or later, and transformers 5.5, for Gemma 4")


def _too_old(subject: Subject, wanted: str) -> Finding:
    return Finding(
        subject="vLLM",
        expected=wanted,
        seen=f"{subject.version} {subject.version_source}",
        where=subject.at("engine_image", "vllm_model"),
        fix=IMAGE,
    )


def _tied_weights(subject: Subject) -> Iterator[Finding]:
    version = parsed(subject.version)
    first, fixed = parsed(UNTIED_FROM), parsed(UNTIED_UNTIL)
    if version is None or first is None or fixed is None:
        return
    if is_a(subject, GEMMA4_DENSE) and is_nvfp4(subject) and first <= version < fixed:
        yield Finding(
            subject="vLLM",
            expected="0.23.0 or before, or 0.25.1 or later, for Gemma 4 31B in NVFP4",
            seen=f"{subject.version} {subject.version_source}",
            where=subject.at("engine_image", "vllm_model"),
            fix=IMAGE,
        )


RULES = (
    Rule(
        id="requires",
        why="the recipe is known to work with those versions only",
        source="the recipe's requires",
        find=_requires,
    ),
    Rule(
        id="architecture",
        why="an older vLLM, such as that of an old NGC image, does not know the model",
        source="guide 11; research 1; vLLM's registry of models by release",
        find=_architecture,
    ),
    Rule(
        id="tied_weights",
        why="vLLM ends at start with a NotImplementedError of tie_weights",
        source="single-spark, the upgrade trap; vllm-project/vllm#48238 and PR#45544",
        find=_tied_weights,
    ),
)

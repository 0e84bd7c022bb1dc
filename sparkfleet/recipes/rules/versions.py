"""The vLLM that a model needs, against the one that will run."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from sparkfleet.recipes.rules.models import GEMMA4_DENSE, is_gemma4, is_model, is_nvfp4
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.vllm import releases
from sparkfleet.vllm.releases import parse_version

IMAGE = "use another image (engine_image), and check it: vllm --version"
GEMMA4_LEAST = Version("0.19.0.dev0")  # research 1: 0.19.0; gemma4-cu130 is a day older
# In 0.23.1rc1.dev309 (single-spark) and 0.24.0 (vllm-project/vllm#48238); 0.23.0 does not have it
# and 0.25.1 has fixed it (their sources).
UNTIED_FROM = Version("0.23.1.dev0")
UNTIED_UNTIL = Version("0.25")


def _check_required_versions(context: RuleContext) -> Iterator[RuleFinding]:
    for package, specifier in context.recipe.requires.items():
        installed = (
            context.version if package == "vllm" else _find_package_version(context, package)
        )
        version = parse_version(installed)
        if version is None or _accepts_version(specifier, version):
            continue
        yield RuleFinding(
            subject=package,
            expected=f"{specifier}, for this recipe",
            seen=f"{installed} {context.version_source}",
            where=context.at(f"requires.{package}", "requires"),
            fix=IMAGE if package == "vllm" else f"{IMAGE}, or add it: engine_pip: [...]",
        )


def _find_package_version(context: RuleContext, package: str) -> str:
    packages = context.facts.packages
    return packages.get(package) or packages.get(f"{package}-python") or ""


def _accepts_version(specifier: SpecifierSet, version: Version) -> bool:
    """Return whether a version will do; a pre-release counts as its release too."""
    release = Version(version.base_version)
    return any(specifier.contains(candidate, prereleases=True) for candidate in (version, release))


def _check_architecture_support(context: RuleContext) -> Iterator[RuleFinding]:
    version = parse_version(context.version)
    if version is None:
        return
    table = releases.load_release_table("architectures")
    supported = context.architecture and table.has(context.architecture, context.version)
    if supported is False:
        first = table.first(context.architecture)
        expected = f"{first} or later" if first else "one with a plugin: no release has it"
        yield _build_old_vllm_finding(context, f"vLLM {expected}, for {context.architecture}")
    elif is_gemma4(context) and version < GEMMA4_LEAST:
        yield _build_old_vllm_finding(
            context, "vLLM 0.19.0 or later, and transformers 5.5, for Gemma 4"
        )


def _build_old_vllm_finding(context: RuleContext, expected: str) -> RuleFinding:
    return RuleFinding(
        subject="vLLM",
        expected=expected,
        seen=f"{context.version} {context.version_source}",
        where=context.at("engine_image", "vllm_model"),
        fix=IMAGE,
    )


def _check_tied_weights(context: RuleContext) -> Iterator[RuleFinding]:
    version = parse_version(context.version)
    if version is None or not UNTIED_FROM <= version < UNTIED_UNTIL:
        return
    if is_model(context, GEMMA4_DENSE) and is_nvfp4(context):
        yield RuleFinding(
            subject="vLLM",
            expected="0.23.0 or before, or 0.25.1 or later, for Gemma 4 31B in NVFP4",
            seen=f"{context.version} {context.version_source}",
            where=context.at("engine_image", "vllm_model"),
            fix=IMAGE,
        )


RULES = (
    Rule(
        id="requires",
        why="the recipe is known to work with those versions only",
        source="the recipe's requires",
        find=_check_required_versions,
    ),
    Rule(
        id="architecture",
        why="an older vLLM, such as that of an old NGC image, does not know the model",
        source="guide 11; research 1; vLLM's registry of models by release",
        find=_check_architecture_support,
    ),
    Rule(
        id="tied_weights",
        why="vLLM exits at start with a NotImplementedError of tie_weights",
        source="single-spark, the upgrade trap; vllm-project/vllm#48238 and PR#45544",
        find=_check_tied_weights,
    ),
)

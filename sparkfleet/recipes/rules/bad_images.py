"""Images whose name shows that they do not work on a Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from sparkfleet.model import Severity
from sparkfleet.recipes.rules.images import NGC, OPENAI, ImageReference
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.vllm.releases import parse_version

NGC_LEAST = (26, 2)  # guide 2
FOR_SPARK = "25.12.post1-py3"  # guide 7.3.1: NVIDIA's own for Spark and Jetson
CUDA_13_SINCE = Version("0.20.0")  # vast-ai/base-image PR#158, ai-dynamo/nixl PR#2140
FIX = "use vllm/vllm-openai:cu130-nightly, or nvcr.io/nvidia/vllm 26.02 or later"
WITHOUT_FASTSAFETENSORS = (f"{OPENAI}:gemma4-cu130",)  # research 2 and 8


def _check_gemma4_tag(context: RuleContext) -> Iterator[RuleFinding]:
    if str(context.image) == f"{OPENAI}:gemma4":
        yield RuleFinding(
            subject="engine_image",
            expected=f"{OPENAI}:gemma4-cu130, which is another image",
            seen=str(context.image),
            where=context.at("engine_image"),
            fix=f"write engine_image: {OPENAI}:gemma4-cu130",
        )


def _check_stable_image(context: RuleContext) -> Iterator[RuleFinding]:
    image = context.image
    if image.repository == OPENAI and (severity := _rate_missing_sm121(image)):
        yield RuleFinding(
            subject="engine_image",
            expected="an image that was built for sm_121, the GB10: a CUDA 13 one",
            seen=str(image),
            where=context.at("engine_image"),
            fix=FIX,
            severity=severity,
        )
    elif (
        image.repository == NGC
        and image.tag != FOR_SPARK
        and _parse_release_month(image.tag) < NGC_LEAST
    ):
        yield RuleFinding(
            subject="engine_image",
            expected="26.02 or later of NVIDIA's image",
            seen=str(image),
            where=context.at("engine_image"),
            fix=FIX,
            severity=Severity.WARNING,
        )


def _rate_missing_sm121(image: ImageReference) -> Severity | None:
    """Return how sure it is that an image of vLLM's own lacks it; None where it may have it.

    Tags without a suffix are CUDA 13 only since 0.20.0.
    """
    if image.tag in ("", "latest"):
        return None if image.digest else Severity.WARNING
    version = parse_version(image.vllm)
    suffix = image.tag.partition("-")[2]
    if version is None or "cu13" in suffix or "nightly" in suffix:
        return None
    return Severity.ERROR if version < CUDA_13_SINCE or "cu12" in suffix else None


def _parse_release_month(tag: str) -> tuple[int, int]:
    match = re.match(r"(\d\d)\.(\d\d)", tag)
    return (int(match[1]), int(match[2])) if match else (99, 0)


def _check_fastsafetensors(context: RuleContext) -> Iterator[RuleFinding]:
    option = context.option("load-format")
    if option is None or option.value != "fastsafetensors":
        return
    if str(context.image) in WITHOUT_FASTSAFETENSORS:
        yield RuleFinding(
            subject=option.flag,
            expected=f"safetensors: {context.image} has no fastsafetensors",
            seen=str(option.value),
            where=option.where,
            fix="write in vllm_args: load-format: safetensors; or engine_pip: [fastsafetensors]",
            severity=Severity.INFO
            if _installs_package(context, "fastsafetensors")
            else Severity.ERROR,
        )


def _installs_package(context: RuleContext, package: str) -> bool:
    return any(
        str(requirement).startswith(package)
        for requirement in context.settings.value("engine_pip") or ()
    )


def _check_moving_tag(context: RuleContext) -> Iterator[RuleFinding]:
    image = context.image
    if image.repository and image.moves:
        yield RuleFinding(
            subject="engine_image",
            expected="a digest: a registry can give another image under the same tag",
            seen=f"{image}, without a digest",
            where=context.at("engine_image"),
            fix=f"when it works, pin it: engine_image: {image}@sha256:...",
            severity=Severity.INFO,
        )


RULES = (
    Rule(
        id="gemma4_tag",
        why="the tag gemma4 is vLLM 0.18.2-dev, which dies in its FP4 kernel on sm_121",
        source="52-toks, the critical flags",
        find=_check_gemma4_tag,
    ),
    Rule(
        id="stable_image",
        why="vLLM's stable images did not support the GB10; tags without suffix are CUDA 13 only "
        "since 0.20.0",
        source="guide 2 and 11; vast-ai/base-image PR#158; ai-dynamo/nixl PR#2140",
        find=_check_stable_image,
    ),
    Rule(
        id="fastsafetensors",
        why="vLLM cannot import it and exits",
        source="research 2 and 8",
        find=_check_fastsafetensors,
    ),
    Rule(
        id="moving_tag",
        why="the version of vLLM is a part of what works, to be pinned for each model",
        source="guide, first warning; single-spark, the upgrade trap",
        find=_check_moving_tag,
    ),
)

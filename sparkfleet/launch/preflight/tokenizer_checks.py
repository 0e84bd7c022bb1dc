"""Check that the engine's transformers can read the model's tokenizer; pure.

vLLM itself reports this only when its ranks start. Since transformers 5, a saved tokenizer can name
the class TokenizersBackend and hold its extra tokens as a list, which transformers 4 cannot read
(eugr/spark-vllm-docker#170, gpustack/gpustack#5096, huggingface/transformers#47553).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sparkfleet.launch.host.image import Probe
from sparkfleet.launch.images.checks import is_at_least
from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.verdicts import build_verdict

FILE = "tokenizer_config.json"
MISTRAL_FILES = ("tekken.json", "tokenizer.model.v3")  # read by mistral-common, not transformers
NEW_CLASS = "TokenizersBackend"
MIN_TRANSFORMERS = "5.0"
OTHER_TOKENIZER = ("tokenizer", "skip-tokenizer-init")
TRANSFORMERS_MODES = ("", "auto", "hf", "slow")  # of --tokenizer-mode


def check_tokenizer(
    content: Any, settings: Settings, probe: Probe | None, files: Collection[str]
) -> Iterator[Verdict]:
    """Yield a verdict on a tokenizer that needs transformers 5; `content` is of its config.

    Yields nothing for any other tokenizer, for an unknown version of transformers, and where vLLM
    does not read the tokenizer with transformers; `files` are the names of the model's files.
    """
    version = probe.packages.get("transformers", "") if probe else ""
    reason = _find_reason(content)
    if not version or not reason or not _is_read_by_transformers(settings, content, files):
        return
    enough = is_at_least(version, MIN_TRANSFORMERS)
    yield build_verdict(
        Severity.OK if enough else Severity.ERROR,
        "model.tokenizer",
        settings.host.name,
        f"transformers for a tokenizer with {reason}",
        expected=f"{MIN_TRANSFORMERS} or later",
        seen=version,
        source=FILE,
        fix=""
        if enough
        else "use an image with transformers 5; or "
        f"engine_pip: ['transformers>={MIN_TRANSFORMERS}'], if its vLLM allows it",
    )


def _find_reason(content: Any) -> str:
    """Return what needs transformers 5, or ""."""
    if not isinstance(content, dict):
        return ""
    if content.get("tokenizer_class") == NEW_CLASS:
        return f"the class {NEW_CLASS}"
    if isinstance(content.get("extra_special_tokens"), list):
        return "extra_special_tokens as a list"
    return ""


def _is_read_by_transformers(settings: Settings, content: Any, files: Collection[str]) -> bool:
    automatic = content.get("auto_map")
    own_code = isinstance(automatic, dict) and "AutoTokenizer" in automatic
    options = settings.vllm_options
    other = any(options.value(name) for name in OTHER_TOKENIZER)
    mode = str(options.value("tokenizer-mode") or "")
    if own_code or other or mode not in TRANSFORMERS_MODES:
        return False
    return not {*MISTRAL_FILES} & {*files}

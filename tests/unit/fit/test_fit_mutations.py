"""Any config.json leads to an answer or an InputError, and to nothing else."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkfleet.errors import InputError
from sparkfleet.fit.advice import recommend_topology
from sparkfleet.fit.checkpoint import build_model_profile
from sparkfleet.fit.memory import NodeMemory, evaluate_nodes
from sparkfleet.fit.options import ServeOptions, Speculation
from sparkfleet.fit.requirements import estimate_requirements
from sparkfleet.fit.verdicts import build_fit_verdict
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.models import CONFIGS

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**41),
    st.floats(),
    st.sampled_from(["", "auto", "fp8", "NVFP4", "mixed_precision", "full_attention", "mamba"]),
    st.lists(st.one_of(st.integers(0, 9), st.none(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.sampled_from(["num_bits", "weights", "a"]), st.integers(0, 9), max_size=2),
)
ROOM = NodeMemory(host="spark", available=10**11)
TREES = {path.stem: json.loads(path.read_text()) for path in CONFIGS.glob("*.json")}


def places(tree: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Return every field of a tree, those of its mappings too."""
    found = [(tree, key) for key in tree]
    for value in tree.values():
        if isinstance(value, dict):
            found += places(value)
    return found


def answer(tree: Any) -> None:
    """Go all the way that a config goes."""
    drafting = Speculation(method="mtp", tokens=2)
    for asked in (ServeOptions(util=0.8), ServeOptions(tp=2, online="fp8", speculation=drafting)):
        model = build_model_profile(
            {"files": {"config.json": json.dumps(tree)}, "tensors": [], "drafts": {}}, asked
        )
        for fit in evaluate_nodes(estimate_requirements(model, asked), asked, (ROOM,)).values():
            build_fit_verdict(fit, asked)
        recommend_topology(model, asked, (ROOM,))


@pytest.mark.timeout(7200)  # 20,000 examples with --thorough
@given(st.data())
@settings(max_examples=scale_examples(30, thorough=MANY), deadline=None)
def test_a_changed_config_is_answered_or_refused(data: st.DataObject) -> None:
    tree = json.loads(json.dumps(data.draw(st.sampled_from(list(TREES.values())))))
    for _ in range(data.draw(st.integers(1, 3))):
        owner, key = data.draw(st.sampled_from(places(tree)))
        owner[key] = data.draw(VALUES)
    with limit_cpu_time(), contextlib.suppress(InputError):
        answer(tree)


@pytest.mark.parametrize("name", TREES)
def test_every_recorded_config_is_answered(name: str) -> None:
    answer(TREES[name])

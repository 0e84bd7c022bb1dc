from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.errors import InputError
from sparkfleet.fit.advice import list_tp_sizes, recommend_topology
from sparkfleet.fit.interval import Interval
from sparkfleet.fit.memory import Fit, FitAnswer, NodeMemory, evaluate_nodes
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions, parse_serve_options
from sparkfleet.fit.requirements import estimate_requirements
from sparkfleet.fit.verdicts import build_fit_verdict
from sparkfleet.fit.weights import estimate_shape_weights
from sparkfleet.vllm.options import read_vllm_options
from tests.models import GIB, made, shape

IDLE = NodeMemory(host="spark", available=118 * GIB)


def model(name: str, online: str | None = None) -> ModelProfile:
    own = shape(name)
    return ModelProfile(shape=own, weights=estimate_shape_weights(own, online))


def judged(subject: ModelProfile, room: NodeMemory = IDLE, **fields: Any) -> Fit:
    asked = replace(ServeOptions(length=65536, util=0.85), **fields)
    return evaluate_nodes(estimate_requirements(subject, asked), asked, (room,))["spark"]


def test_the_26b_has_the_tokens_of_its_log_from_util_alone() -> None:
    fit = judged(model("gemma-4-26b-a4b-it-nvfp4"), kv_dtype="fp8", length=131072, vllm="0.19.0")
    assert fit.answer is FitAnswer.FITS
    assert fit.logged is not None
    assert fit.logged.low < 714_768 < fit.logged.high
    assert fit.logged.middle == pytest.approx(714_768, rel=0.15)
    assert fit.cache is not None
    assert fit.cache.low / GIB < 81.8 < fit.cache.high / GIB


def test_what_vllm_takes_is_what_two_sparks_showed() -> None:
    fit = judged(model("gemma-4-31b-it", "fp8"), tp=2, online="fp8", kv_dtype="fp8")
    assert fit.claim.low / (1 << 20) == pytest.approx(105_721, rel=0.01)  # dual-Spark, head


def test_a_model_too_large_for_one_spark_is_refused_and_fits_on_two() -> None:
    large = model("llama-3.3-70b-instruct")
    one = judged(large)
    two = judged(large, tp=2)
    assert one.answer is FitAnswer.NOT
    assert "it needs at least 131.4 GiB" in one.why
    assert two.answer is FitAnswer.FITS


@pytest.mark.parametrize(
    ("args", "env", "setting"),
    [
        ({}, {"VLLM_PLE_TABLE_MEMORY": "disk"}, "VLLM_PLE_TABLE_MEMORY=disk"),
        ({"engram-config": {"table_memory": "disk"}}, {}, "--engram-config"),
        ({"engram-config": '{"table_memory":"disk"}'}, {}, "--engram-config"),
    ],
)
def test_weights_with_tables_on_disk_are_unknown_and_not_refused(
    args: dict[str, Any], env: dict[str, str], setting: str
) -> None:
    asked = parse_serve_options(read_vllm_options(args), environment=env)
    assert asked.disk_tables == setting
    fit = judged(model("llama-3.3-70b-instruct"), disk_tables=asked.disk_tables)
    assert fit.answer is FitAnswer.UNKNOWN
    assert fit.why == f"unknown weights in memory: {setting} keeps tables of the model on disk"
    assert judged(model("llama-3.3-70b-instruct"), kv_bytes=GIB).answer is FitAnswer.NOT


def test_a_set_number_of_blocks_leaves_the_cache_unknown_and_the_weights_known() -> None:
    asked = parse_serve_options(read_vllm_options({"num-gpu-blocks-override": 5}))
    assert asked.blocks_set
    fit = judged(model("qwen3-30b-a3b"), blocks_set=True, length=8192)
    assert fit.answer is FitAnswer.UNKNOWN
    assert "unknown KV cache: num-gpu-blocks-override sets its blocks" in fit.why
    assert "the weights fit" in fit.why
    assert fit.sequences is None
    assert judged(model("llama-3.3-70b-instruct"), blocks_set=True).answer is FitAnswer.NOT


def test_tables_in_memory_count() -> None:
    args = {"engram-config": {"table_memory": "ram"}}
    options = read_vllm_options(args)
    asked = parse_serve_options(options, environment={"VLLM_PLE_TABLE_MEMORY": "gpu"})
    assert asked.disk_tables == ""


def test_pipeline_stages_share_the_weights_too() -> None:
    large = model("llama-3.3-70b-instruct")
    assert (
        estimate_requirements(large, ServeOptions(pp=2)).weights
        == estimate_requirements(large, ServeOptions(tp=2)).weights
    )


def test_an_unknown_layer_type_has_no_estimate_but_weights_can_refuse() -> None:
    strange = replace(shape("llama-3.3-70b-instruct"), layer_types=("retention",) * 80)
    weights = estimate_shape_weights(shape("llama-3.3-70b-instruct"))
    assert judged(ModelProfile(shape=strange, weights=weights)).answer is FitAnswer.NOT
    small = replace(weights, resident=Interval.of(10 * GIB))
    fit = judged(ModelProfile(shape=strange, weights=small))
    assert fit.answer is FitAnswer.UNKNOWN
    assert "retention" in fit.why
    assert fit.sequences is None


def test_nothing_known_has_no_estimate() -> None:
    fit = judged(ModelProfile())
    assert fit.answer is FitAnswer.UNKNOWN
    assert fit.cache is None


def test_the_longest_context_fits_and_one_more_block_does_not() -> None:
    asked = ServeOptions(util=0.5, length=1000)
    found = estimate_requirements(
        ModelProfile(
            shape=made(max_position_embeddings=10**8), weights=estimate_shape_weights(made())
        ),
        asked,
    )
    fit = evaluate_nodes(found, asked, (IDLE,))["spark"]
    assert fit.longest is not None
    assert found.pool is not None
    assert fit.cache is not None
    assert found.pool.sequence_bytes(int(fit.longest.low), asked.batched) <= fit.cache.low
    assert found.pool.sequence_bytes(int(fit.longest.low) + 16, asked.batched) > fit.cache.low


def test_a_given_cache_has_to_hold_one_sequence() -> None:
    small = model("gemma-4-26b-a4b-it-nvfp4")
    assert judged(small, kv_bytes=GIB, length=65536).answer is FitAnswer.NOT
    assert judged(small, kv_bytes=6 * GIB, length=65536).answer is FitAnswer.FITS


def test_a_given_cache_needs_memory_next_to_the_weights() -> None:
    fit = judged(
        model("gpt-oss-120b"), NodeMemory(host="spark", available=64 * GIB), kv_bytes=6 * GIB
    )
    assert fit.answer is FitAnswer.NOT
    assert "it needs at least 66.7 GiB, and 64.0 GiB is available" in fit.why


def test_a_cache_that_may_be_too_small_is_close() -> None:
    fit = judged(model("gpt-oss-120b"), util=0.56, length=131072)
    assert fit.answer is FitAnswer.CLOSE
    assert "KV cache that needs" in fit.why


def test_memory_that_is_only_known_in_all_refuses_nothing_that_it_holds() -> None:
    fit = judged(model("gpt-oss-120b"), NodeMemory(host="spark"), util=0.97)
    assert fit.answer is FitAnswer.FITS


def test_drafts_in_the_checkpoint_count_only_where_they_run() -> None:
    subject = model("qwen3.5-397b-a17b")
    plain, drafting = (
        estimate_requirements(
            subject, parse_serve_options(read_vllm_options({"speculative-config": value}))
        ).weights
        for value in (None, {"method": "mtp", "num_speculative_tokens": 1})
    )
    assert plain is not None
    assert drafting is not None
    assert subject.shape is not None
    drafts = estimate_shape_weights(subject.shape).drafts
    assert drafting.low - plain.low == pytest.approx(drafts.low)


def test_a_draft_model_is_loaded_on_every_rank_and_keeps_a_cache() -> None:
    draft = made()
    subject = replace(
        model("llama-3.3-70b-instruct"), draft_shape=draft, draft=estimate_shape_weights(draft)
    )
    asked = ServeOptions(tp=2, length=1000)
    alone = estimate_requirements(model("llama-3.3-70b-instruct"), asked)
    both = estimate_requirements(subject, asked)
    assert both.draft.low == estimate_shape_weights(draft).resident.low / 2
    assert both.sequence_bytes is not None
    assert alone.sequence_bytes is not None
    assert both.sequence_bytes > alone.sequence_bytes


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"gpu-memory-utilization": 0}, "a number > 0 and <= 1 (got 0)"),
        ({"gpu-memory-utilization": -0.5}, "got -0.5"),
        ({"gpu-memory-utilization": 85}, "got 85"),
        ({"gpu-memory-utilization": "lots"}, "got 'lots'"),
        ({"gpu-memory-utilization": True}, "got True"),
        ({"max-model-len": -5}, "number of tokens from 1 to 1073741824 (got -5)"),
        ({"max-model-len": 0}, "number of tokens from 1 to 1073741824 (got 0)"),
        ({"max-model-len": 10**12}, "number of tokens"),
        ({"max-model-len": "long"}, "got 'long'"),
        ({"max-num-seqs": 0}, "max-num-seqs: expected an integer >= 1 (got 0)"),
        ({"max-num-seqs": True}, "expected an integer >= 1 (got True)"),
        ({"max-num-seqs": "auto"}, "expected an integer >= 1 (got 'auto')"),
        ({"max_num_batched_tokens": -1}, "max-num-batched-tokens"),
        ({"kv-cache-memory-bytes": 0}, "a number of bytes, such as 6G (got 0)"),
        ({"kv-cache-memory-bytes": "-3G"}, "kv-cache-memory-bytes: expected a number of bytes"),
        ({"kv-cache-memory-bytes": "6GiB"}, "kv-cache-memory-bytes: expected a number of bytes"),
        ({"kv-cache-memory-bytes": "1.5G"}, "such as 6G (got '1.5G')"),
        ({"max-num-seqs": "16K"}, "expected an integer >= 1 (got '16K')"),
        ({"speculative-config": "{"}, "is not JSON"),
        ({"speculative-config": [1]}, "expected a JSON object"),
        ({"speculative-config": {"num_speculative_tokens": 0}}, "num_speculative_tokens"),
    ],
)
def test_negative_and_absurd_options_are_errors(args: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as refusal:
        parse_serve_options(read_vllm_options(args))
    assert (refusal.value.hint or "").startswith(("write", "gpu-memory-utilization is a fraction"))


def test_options_are_read_as_vllm_reads_them() -> None:
    asked = parse_serve_options(
        read_vllm_options({"--max_model_len": "64K", "max-num-seqs": "4", "quantization": "fp8"}),
        tp=2,
    )
    assert (asked.length, asked.sequences, asked.online, asked.nodes) == (65536, 4, "fp8", 2)
    assert parse_serve_options(read_vllm_options({"max-model-len": "auto"})).length is None
    sizes_given = [
        parse_serve_options(read_vllm_options({"kv-cache-memory-bytes": text})).kv_bytes
        for text in ("2G", "2g", "1.5g")
    ]
    assert sizes_given == [2 * GIB, 2 * 10**9, 15 * 10**8]
    assert parse_serve_options(read_vllm_options({"quantization": "modelopt"})).online is None


def test_advice_is_one_spark_where_tensor_parallelism_gains_little() -> None:
    found = recommend_topology(
        model("gemma-4-26b-a4b-it-nvfp4"), ServeOptions(length=65536, util=0.85), (IDLE,)
    )
    assert found.choice == "solo"
    assert "times as fast" in found.reasons[1]
    assert "as fast as on one Spark: sparkfleet cluster.up --dp 2; " in found.reasons[1]


def test_advice_is_tensor_parallel_for_a_dense_model() -> None:
    asked = ServeOptions(length=65536, util=0.85, online="fp8")
    assert recommend_topology(model("gemma-4-31b-it", "fp8"), asked, (IDLE,)).choice == "TP=2"


def test_advice_keeps_to_what_the_recipe_allows() -> None:
    found = recommend_topology(
        model("gemma-4-31b-it"), ServeOptions(length=4096, util=0.85), (IDLE,), allowed=(1,)
    )
    assert found.choice == "solo"
    assert found.reasons[1].endswith("serve its own copy: sparkfleet cluster.up --dp 2")


def test_advice_is_as_many_sparks_as_it_takes() -> None:
    large = model("qwen3.5-397b-a17b", "fp8")
    found = recommend_topology(large, ServeOptions(length=4096, util=0.85, online="fp8"), (IDLE,))
    assert found.choice == "TP=4"
    assert (
        recommend_topology(large, ServeOptions(length=4096), (IDLE,), allowed=(1, 2)).choice
        == "it does not fit"
    )


def test_advice_takes_no_size_that_does_not_divide_the_heads() -> None:
    odd = made(num_attention_heads=15, num_key_value_heads=5, head_dim=64)
    found = recommend_topology(
        ModelProfile(shape=odd, weights=estimate_shape_weights(odd)),
        ServeOptions(util=0.5),
        (IDLE,),
    )
    assert found.choice == "solo"
    assert "2 does not divide its 15 attention heads" in found.reasons[1]


def test_advice_begins_at_the_smallest_size_of_the_recipe() -> None:
    asked = ServeOptions(length=65536, util=0.85, online="fp8")
    found = recommend_topology(
        model("gemma-4-31b-it", "fp8"), asked, (IDLE,), allowed=list_tp_sizes(2, None)
    )
    assert found.choice == "TP=2"
    assert list_tp_sizes(None, None) == (1, 2, 4, 8)
    assert list_tp_sizes(3, 3) == (3,)
    assert list_tp_sizes(None, 2) == (1, 2)


def test_advice_says_when_the_result_is_unknown() -> None:
    assert recommend_topology(ModelProfile(), ServeOptions(), (IDLE,)).choice == "unknown"


def test_a_context_that_would_fit_is_named() -> None:
    asked = ServeOptions(length=16_000_000, util=0.3, kv_dtype="fp8")
    fit = evaluate_nodes(
        estimate_requirements(model("gemma-4-26b-a4b-it-nvfp4"), asked), asked, (IDLE,)
    )["spark"]
    found = build_fit_verdict(fit, asked)
    assert found.refuses
    assert "max-model-len: " in found.fix


@pytest.mark.parametrize("length", ["auto", -1, "-1"])
def test_auto_fits_wherever_any_sequence_does(length: Any) -> None:
    asked = parse_serve_options(read_vllm_options({"max-model-len": length}))
    assert asked.auto_length
    own = replace(shape("qwen3-30b-a3b"), context=1 << 22)
    subject = ModelProfile(shape=own, weights=estimate_shape_weights(own))
    fit = judged(subject, auto_length=True, length=None, util=0.8)
    assert fit.answer is FitAnswer.FITS
    assert fit.longest is not None
    assert 300_000 < fit.longest.low < fit.longest.high < 1 << 22
    assert "the longest context that fits, " in fit.why
    assert fit.sequences == Interval.of(1)
    assert judged(subject, length=None, util=0.8).answer is FitAnswer.NOT  # vLLM's default


def test_auto_of_unknown_positions_is_unknown() -> None:
    own = replace(shape("qwen3-30b-a3b"), context=None)
    fit = judged(
        ModelProfile(shape=own, weights=estimate_shape_weights(own)), auto_length=True, length=0
    )
    assert fit.answer is FitAnswer.UNKNOWN


def test_auto_is_refused_where_not_even_the_weights_fit() -> None:
    fit = judged(model("llama-3.3-70b-instruct"), auto_length=True, length=None)
    assert fit.answer is FitAnswer.NOT


@pytest.mark.parametrize(
    ("fields", "options", "why"),
    [
        ({}, {"length": 8193}, "max-model-len 8193 is more than the 8192 positions"),
        ({}, {"length": 8192}, None),
        ({}, {"length": 8193, "stretched": True}, None),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, {"length": 32768}, None),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, {"length": 32769}, "32768 positions"),
        ({"rope_parameters": {"full_attention": {"factor": 2}}}, {"length": 16384}, None),
        ({"max_position_embeddings": None}, {"length": 1 << 20}, None),
        ({}, {"tp": 3, "length": 8192}, "3 does not divide its 16 attention heads"),
        ({"num_key_value_heads": 3}, {"tp": 4, "length": 8192}, "its 3 KV heads"),
        ({"num_key_value_heads": 2}, {"tp": 4, "length": 8192}, None),
        ({}, {"pp": 5, "length": 8192}, "its 4 layers are fewer than the 5 stages"),
        ({}, {"pp": 4, "length": 8192}, None),
    ],
)
def test_what_vllm_refuses_does_not_fit_and_what_is_unknown_is_not_refused(
    fields: dict[str, Any], options: dict[str, Any], why: str | None
) -> None:
    own = made(**fields)
    subject = ModelProfile(shape=own, weights=estimate_shape_weights(made()))
    fit = judged(subject, **options)
    assert (fit.answer is FitAnswer.NOT) == (why is not None)
    verdict = build_fit_verdict(fit, replace(ServeOptions(length=65536), **options))
    if why is not None:
        assert why in fit.why
        assert verdict.fix == fit.fix != ""


@pytest.mark.parametrize(
    ("args", "env", "stretched"),
    [
        ({}, {}, False),
        ({"hf-overrides": {"rope_parameters": {"factor": 4}}}, {}, True),
        ({}, {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, True),
        ({}, {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "0"}, False),
    ],
)
def test_settings_that_stretch_the_positions_are_known(
    args: dict[str, Any], env: dict[str, str], *, stretched: bool
) -> None:
    assert parse_serve_options(read_vllm_options(args), environment=env).stretched is stretched


@pytest.mark.parametrize(
    ("version", "by_sequences"), [("0.19.1", False), ("0.20.0", True), ("0.29.0", True), ("", True)]
)
def test_the_log_is_counted_as_the_version_counts(version: str, *, by_sequences: bool) -> None:
    fit = judged(model("gemma-4-26b-a4b-it-nvfp4"), kv_dtype="fp8", length=131072, vllm=version)
    assert fit.logged is not None
    assert (fit.logged.low > 4_000_000) is by_sequences

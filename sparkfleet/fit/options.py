"""The options of vLLM that decide memory and speed, with vLLM's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.errors import InputError, quote_value
from sparkfleet.values import parse_json
from sparkfleet.vllm.environment import is_switched_on
from sparkfleet.vllm.numbers import convert_fraction, is_auto_length, parse_human_readable_int
from sparkfleet.vllm.option_types import convert_option_integer
from sparkfleet.vllm.options import DEFAULT_MEMORY_UTILIZATION, VllmOptions, parse_json_object

SEQUENCES = 256  # of `vllm serve`
BATCHED = 8192  # of vLLM on a GPU with 70 GiB or more
MAX_TOKENS = 1 << 30
ALLOW_LONG = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
PLE_TABLE = "VLLM_PLE_TABLE_MEMORY"  # of local-inference-lab/vllm
SPECULATION_HINT = "write a mapping: speculative-config: {method: mtp, num_speculative_tokens: 2}"
STORED = (  # methods that name the format of a checkpoint and convert nothing
    "modelopt",
    "modelopt_fp4",
    "modelopt_mixed",
    "compressed-tensors",
    "awq",
    "awq_marlin",
    "gptq",
    "gptq_marlin",
    "mxfp4",
    "auto-round",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Speculative decoding: `tokens` drafted a step; `model` None for heads in the checkpoint."""

    method: str
    tokens: int
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of a start on ``tp * pp`` Sparks; `length` None is the model's own.

    With `auto_length` it is the longest that fits; `stretched` lets it exceed the model's own.
    `util` is a fraction of each node's memory; `kv_bytes`, where given, sets the KV cache of a rank
    instead. `online` is a --quantization that converts weights of 16 bits while they load. `vllm`
    is the version that will run, "" where it is not known.
    """

    tp: int = 1
    pp: int = 1
    length: int | None = None
    stretched: bool = False
    sequences: int = SEQUENCES
    batched: int = BATCHED
    util: float = DEFAULT_MEMORY_UTILIZATION
    kv_bytes: int | None = None
    blocks_set: bool = False  # whether --num-gpu-blocks-override sets the KV cache
    auto_length: bool = False
    kv_dtype: str = "auto"
    prefixes: bool = True  # whether prefixes are cached
    aligned: bool = False  # whether states are kept at the ends of blocks (mamba-cache-mode)
    asynchronous: bool = True  # whether a step is planned while another one runs
    eager: bool = False
    online: str | None = None
    speculation: Speculation | None = None
    expert_parallel: bool = False  # whether a rank has whole experts
    moe_backend: str = "auto"
    disk_tables: str = ""  # the setting that keeps a part of the weights on disk
    vllm: str = ""

    @property
    def nodes(self) -> int:
        """The number of Sparks."""
        return self.tp * self.pp


def parse_serve_options(
    options: VllmOptions,
    *,
    tp: int = 1,
    pp: int = 1,
    environment: Mapping[str, Any] | None = None,
    vllm: str = "",
) -> ServeOptions:
    """Return the start that the options of `vllm serve` and the environment describe.

    Raises InputError for an impossible value.
    """
    given = options.by_name()
    quantization = given.get("quantization")
    kv_bytes = given.get("kv-cache-memory-bytes")
    length = given.get("max-model-len")
    return ServeOptions(
        tp=tp,
        pp=pp,
        length=parse_token_limit("max-model-len", length),
        auto_length=length is not None and is_auto_length(length),
        stretched=_can_stretch(given, environment or {}),
        sequences=_parse_count("max-num-seqs", given.get("max-num-seqs"), SEQUENCES),
        batched=_parse_count(
            "max-num-batched-tokens", given.get("max-num-batched-tokens"), BATCHED
        ),
        util=_read_memory_fraction(options),
        kv_bytes=None if kv_bytes is None else _parse_byte_size("kv-cache-memory-bytes", kv_bytes),
        blocks_set=given.get("num-gpu-blocks-override") is not None,
        kv_dtype=str(given.get("kv-cache-dtype") or "auto"),
        prefixes=given.get("enable-prefix-caching") is not False,
        aligned=given.get("mamba-cache-mode") == "align",
        asynchronous=given.get("async-scheduling") is not False,
        eager=given.get("enforce-eager") is True,
        online=quantization if quantization and quantization not in STORED else None,
        speculation=_parse_speculation(options.speculative_config),
        expert_parallel=given.get("enable-expert-parallel") is True,
        moe_backend=str(given.get("moe-backend") or "auto"),
        disk_tables=_find_disk_tables(given, environment or {}),
        vllm=vllm,
    )


def _can_stretch(given: Mapping[str, Any], environment: Mapping[str, Any]) -> bool:
    """Return whether vLLM may take more positions than config.json has."""
    overridden = any(given.get(name) for name in ("hf-overrides", "rope-scaling", "config-format"))
    return overridden or is_switched_on(environment.get(ALLOW_LONG))


def _find_disk_tables(given: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    """Return the setting that keeps tables of the weights on disk, or "".

    Qwen3.8-Flash-Next has its n-gram table there and DeepSeek-V4.1-Flash its Engram tables.
    """
    if environment.get(PLE_TABLE) == "disk":
        return f"{PLE_TABLE}=disk"
    engram = parse_json_object(given.get("engram-config"))
    return "--engram-config" if engram.get("table_memory") == "disk" else ""


def parse_token_limit(name: str, value: Any) -> int | None:
    """Return a number of tokens: 65536, "64K", "1m"; None for None, "auto" and -1."""
    if value is None or is_auto_length(value):
        return None
    try:
        count = parse_human_readable_int(value)
    except ValueError:
        count = 0
    if isinstance(value, bool) or not 1 <= count <= MAX_TOKENS:
        example = f"type: {name} 65536" if name.startswith("--") else f"write: {name}: 65536"
        raise InputError(
            f"{name}: expected a number of tokens from 1 to {MAX_TOKENS} (got {value!r})",
            hint=example,
        )
    return count


def parse_memory_fraction(name: str, text: str) -> float:
    """Return a fraction of memory, above 0 and up to 1; raises InputError."""
    try:
        return convert_fraction(text)
    except ValueError as error:
        raise _build_fraction_error(name, error) from error


def _read_memory_fraction(options: VllmOptions) -> float:
    try:
        return options.memory_utilization
    except ValueError as error:
        raise _build_fraction_error("gpu-memory-utilization", error) from error


def _build_fraction_error(name: str, error: ValueError) -> InputError:
    hint = f"{name} is a fraction of the memory; on a Spark, 0.7 to 0.85 is usual"
    return InputError(f"{name}: {error}", hint=hint)


def _parse_count(name: str, value: Any, default: int) -> int:
    if value is None:
        return default
    count = _parse_integer(name, value)
    if not 1 <= count <= MAX_TOKENS:
        raise InputError(
            f"{name}: expected an integer >= 1 (got {value!r})", hint=f"write: {name}: {default}"
        )
    return count


def _parse_byte_size(name: str, value: Any) -> int:
    size = _parse_integer(name, value)
    if size < 1:
        raise InputError(
            f"{name}: expected a number of bytes, such as 6G (got {value!r})",
            hint=f"write: {name}: 6G",
        )
    return size


def _parse_integer(name: str, value: Any) -> int:
    """Return the integer that vLLM reads for an option; 0, which is none that it takes, if none."""
    try:
        return convert_option_integer(name, value)
    except ValueError:
        return 0


def _parse_speculation(value: Any) -> Speculation | None:
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError as error:
            problem = f"speculative-config is not JSON: {error}"
            raise InputError(problem, hint=SPECULATION_HINT) from error
    if not value:
        return None
    if not isinstance(value, Mapping):
        problem = f"speculative-config: expected a JSON object (got {quote_value(value)})"
        raise InputError(problem, hint=SPECULATION_HINT)
    model = value.get("model")
    return Speculation(
        method=str(value.get("method") or "draft_model"),
        tokens=_parse_count("num_speculative_tokens", value.get("num_speculative_tokens"), 1),
        model=str(model) if model else None,
    )

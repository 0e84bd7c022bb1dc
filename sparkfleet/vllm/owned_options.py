"""The options of `vllm serve` that sparkfleet sets itself, and which variable decides each."""

from __future__ import annotations

from sparkfleet.vllm.option_names import complete_long_name
from sparkfleet.vllm.options import read_command_line

_SECRET = "in vllm_env, from a file; every user of the host can see a command line"  # noqa: S105 - words
OWNED_OPTIONS = {
    "host": "vllm_host",
    "port": "vllm_port",
    "model": "vllm_model",
    "served-model-name": "vllm_served_name",
    "tensor-parallel-size": "--tp",
    "pipeline-parallel-size": "--pp",
    "distributed-executor-backend": "vllm_executor",
    "nnodes": "--tp and --pp",
    "node-rank": "the rank order of the inventory",
    "master-addr": "the head's fabric address",
    "master-port": "vllm_master_port",
    "headless": "chosen by rank",
    "data-parallel-size": "--dp",
    "data-parallel-size-local": "--dp",
    "data-parallel-rank": "the rank order of the inventory",
    "data-parallel-start-rank": "the rank order of the inventory",
    "data-parallel-address": "the head's fabric address",
    "data-parallel-rpc-port": "vllm_dp_port",
    "data-parallel-backend": "vllm_executor",
    "data-parallel-hybrid-lb": "vLLM's internal load balancing is used",
    "data-parallel-external-lb": "vLLM's internal load balancing is used",
    "data-parallel-multi-port-external-lb": "vLLM's internal load balancing is used",
    "api-key": f"VLLM_API_KEY {_SECRET}",
    "hf-token": f"HF_TOKEN {_SECRET}",
}
SECRET_OPTIONS = ("api-key", "hf-token")


def find_owned_option(word: str) -> str:
    """Return the option of `OWNED_OPTIONS` that a word of a command line is, or "".

    In every spelling that vLLM's parser takes: with a value after ``=``, with underscores, short,
    short with its number (``-n2``), shortened, negated.
    """
    names = [option.plain_name for option in read_command_line([word])]
    found = [each for name in names if name for each in complete_long_name(name)]
    # Several where it begins only options of sparkfleet: some release has only one of them
    return found[0] if found and all(name in OWNED_OPTIONS for name in found) else ""

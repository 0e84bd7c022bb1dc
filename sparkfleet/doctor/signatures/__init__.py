"""The table of known failures: the message in a log, its cause and the fix.

An `id` names the failure. Its `source` is a public report of it, as ``owner/repository#issue`` or
``owner/repository PR#number`` on GitHub, or the program whose message it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sparkfleet.doctor.signatures import (
    by_module,
    checkpoint,
    containers,
    executor,
    fabric,
    gateway,
    host,
    images,
    kernels,
    memory,
    model,
    nccl,
    options,
    packages,
    tokenizer,
    toolchain,
    verbs,
    weights,
)
from sparkfleet.doctor.signatures.infrastructure import (
    access,
    by_program,
    driver,
    group,
    hub,
    processes,
    ray,
    ray_processes,
)
from sparkfleet.doctor.signatures.row import Clues, FailureRole, Signature
from sparkfleet.doctor.signatures.serving import adapters, requests, speculation

CHAPTERS: Mapping[str, tuple[Signature, ...]] = MappingProxyType(
    {
        "The fabric": fabric.ROWS,
        "NCCL and RDMA": (*verbs.ROWS, *group.ROWS, *nccl.ROWS),
        "Ray": (*ray.ROWS, *ray_processes.ROWS),
        "The executors and the engine's processes": (*executor.ROWS, *processes.ROWS),
        "Memory": memory.ROWS,
        "Models": model.ROWS,
        "Tokenizers": tokenizer.ROWS,
        "Options": options.ROWS,
        "Adapters": adapters.ROWS,
        "Speculative decoding": speculation.ROWS,
        "Requests": requests.ROWS,
        "Kernels and CUDA graphs": kernels.ROWS,
        "Wheels and compilers": (*toolchain.ROWS, *packages.ROWS),
        "Images and containers": (*images.ROWS, *containers.ROWS),
        "Weights": (*weights.ROWS, *checkpoint.ROWS, *hub.ROWS),
        "Hosts": (*host.ROWS, *driver.ROWS, *access.ROWS),
        "The gateway": gateway.ROWS,
        "Failures that no other row explains": (*by_module.ROWS, *by_program.ROWS),
    }
)
SIGNATURES: tuple[Signature, ...] = tuple(row for rows in CHAPTERS.values() for row in rows)

__all__ = ["CHAPTERS", "SIGNATURES", "Clues", "FailureRole", "Signature"]

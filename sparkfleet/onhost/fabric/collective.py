"""Take part in collectives over all ranks, with plain torch.distributed, and time them.

Runs in the engine's own Python, one process a host, one GPU each (else on the CPU with gloo). By
hand: ``python collective.py < request.json`` on every host, with another `rank` each. The request
is one line:

``{"world": 2, "rank": 0, "init": "192.168.100.10:20099", "backend": "auto", "device": 0,
"operations": ["all_gather", "all_reduce"], "sizes": [1048576, 67108864], "iterations": 20,
"warmup": 5, "seconds": 30, "timeout": 60, "env": {"NCCL_SOCKET_IFNAME": "enp1s0f1np1"}}``

`init` is an address of rank 0 that all reach, and a free port there; `backend` is nccl, gloo or
auto (nccl where torch sees a GPU); `sizes` are bytes of a message: what each rank reduces, or what
each has when all was gathered. `env` is the rank's environment, null unsets a variable. No size
is begun that would end after `seconds`; whatever hangs ends after `timeout`.

A line ``{"prepare": true}`` may come first: torch is imported, ``{"ready": true}`` answered, and
the request awaited. Nothing begins on a GPU before that.

The answer is the last line: ``{"backend": ..., "torch": ..., "nccl": ..., "device": ...,
"rows": [[OPERATION, SIZE, MICROSECONDS, BUSBW]...], "log": ...}``: microseconds of one collective,
bus bandwidth in GB/s as nccl-tests defines it, and the lines of NCCL_DEBUG=INFO. Without torch it
is ``{"missing": WHY, "log": ""}``.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOG_KEPT = 200_000  # bytes of NCCL's log
FLOAT = 4  # bytes
# Bytes that pass a rank's link for each byte of the message, among n ranks (nccl-tests,
# doc/PERFORMANCE.md).
FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n}


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    if "prepare" in request:
        with contextlib.suppress(ImportError):  # the request will be answered with the reason
            import torch.distributed  # noqa: PLC0415 - of the engine
        print('{"ready": true}', flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        request = json.loads(line)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "nccl.log"
        limit = threading.Timer(request["seconds"] + request["timeout"], give_up, [log])
        limit.daemon = True
        apply_environment(request["env"], log)
        try:
            import torch.distributed  # noqa: PLC0415 - of the engine; before it, nothing needs it

            limit.start()  # after the import, which can be slow from a cold disk
            answer = join_collectives(torch, request)
        except ImportError as error:
            answer = {"missing": f"{sys.executable}: {error}"}
        except (RuntimeError, ValueError, OSError) as error:
            answer = {"failed": (str(error).strip() or type(error).__name__).splitlines()[0]}
        answer["log"] = read_nccl_log(log)
    print(json.dumps(answer), flush=True)
    os._exit(0)  # do not wait for threads of a hung collective


def give_up(log: Path) -> None:
    """Stop: a rank whose peers have exited can hang in a library for ever."""
    failed = "hung until the time was up: see the other ranks"
    print(json.dumps({"failed": failed, "log": read_nccl_log(log)}), flush=True)
    os._exit(0)


def apply_environment(variables: dict[str, str | None], log: Path) -> None:
    """Take over the rank's environment, and let NCCL write its lines into `log`."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    os.environ["NCCL_DEBUG"] = "INFO"
    os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,NET,ENV"
    os.environ["NCCL_DEBUG_FILE"] = str(log)


def read_nccl_log(log: Path) -> str:
    """Return the end of NCCL's log, empty where there is none."""
    with contextlib.suppress(OSError):
        return log.read_bytes()[-LOG_KEPT:].decode("utf-8", "backslashreplace")
    return ""


def join_collectives(torch: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Join the group, time every size and operation, and leave it."""
    backend = request["backend"]
    number = request["device"]
    if backend == "auto":
        backend = "nccl" if torch.cuda.is_available() else "gloo"
    on_gpu = backend == "nccl"
    if on_gpu:
        torch.cuda.set_device(number)
    torch.distributed.init_process_group(
        backend,
        init_method=f"tcp://{request['init']}",
        world_size=request["world"],
        rank=request["rank"],
        timeout=timedelta(seconds=request["timeout"]),
    )
    device = torch.device("cuda", number) if on_gpu else torch.device("cpu")
    rows = list(time_collectives(torch, request, device))
    torch.distributed.destroy_process_group()
    return {
        "backend": backend,
        "torch": torch.__version__,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if on_gpu else "",
        "device": torch.cuda.get_device_name(number) if on_gpu else "cpu",
        "rows": rows,
    }


def time_collectives(torch: Any, request: dict[str, Any], device: Any) -> Iterator[list[Any]]:
    """Yield operation, size, microseconds and busbw; all ranks stop at the same size.

    The first collective sets up the connections; its time does not count. A size begins only if,
    judged by the size before it, it ends within the limit.
    """
    group = torch.distributed
    group.all_reduce(torch.zeros(1, device=device))
    spent = rate = 0.0  # seconds in all, and those for a byte of a message at the last size
    for size in request["sizes"]:
        end = torch.tensor([spent + rate * size], device=device)
        group.all_reduce(end, group.ReduceOp.MAX)
        if end.item() > request["seconds"]:
            return
        rate = 0.0
        for name in request["operations"]:
            run = prepare_operation(torch, name, size // FLOAT, device)
            for _ in range(request["warmup"]):
                run()
            seconds = time_repetitions(torch, run, request["iterations"], device)
            busbw = size / seconds / 1e9 * FACTORS[name](request["world"])
            yield [name, size, seconds * 1e6, busbw]
            rate += seconds * (request["warmup"] + request["iterations"]) / size
        spent += rate * size


def prepare_operation(torch: Any, name: str, count: int, device: Any) -> Callable[[], object]:
    """Return a collective of `count` numbers, ready to be repeated."""
    group = torch.distributed
    world = group.get_world_size()
    whole = torch.zeros(count // world * world, device=device)
    if name == "all_reduce":
        return lambda: group.all_reduce(whole)
    part = torch.zeros(count // world, device=device)
    gather = getattr(group, "all_gather_single", None) or group.all_gather_into_tensor  # torch 2.13
    return lambda: gather(whole, part)


def time_repetitions(torch: Any, run: Callable[[], object], count: int, device: Any) -> float:
    """Return the seconds of one of `count` runs in a row, begun by all ranks together."""

    def settle() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    torch.distributed.barrier()
    settle()
    began = time.perf_counter()
    for _ in range(count):
        run()
    settle()
    return (time.perf_counter() - began) / count


if __name__ == "__main__":
    main()

"""Read the GPU's clock while it works: a latched power state shows only under load.

Request: ``seconds`` of load. The load writes to memory of the GPU by the driver's own library, so
that it needs no engine and no container. Answer: ``clock``, MHz, the highest that was seen; or
``skipped``, why there was no load.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading
import time

CLOCK = ("nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits")
SIZE = 256 << 20  # bytes
AT_ONCE = 16  # writes between two looks at the time
TICK = 0.2  # s


class CudaError(Exception):
    """The driver refused."""


class GpuLoad(threading.Thread):
    """Writes to memory of the first GPU until `ends` is set."""

    def __init__(self, cuda: ctypes.CDLL) -> None:
        super().__init__(daemon=True)
        self.ends = threading.Event()
        self.failure = ""
        self._cuda = cuda

    def run(self) -> None:
        """Write, and keep what the driver says against it."""
        try:
            self._write()
        except CudaError as error:
            self.failure = str(error)

    def _write(self) -> None:
        device = ctypes.c_int()
        context = ctypes.c_void_p()
        memory = ctypes.c_uint64()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        self._call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(SIZE))
        while not self.ends.is_set():
            for _ in range(AT_ONCE):
                self._call("cuMemsetD32_v2", memory, ctypes.c_uint(0), ctypes.c_size_t(SIZE // 4))
            self._call("cuCtxSynchronize")
        self._call("cuCtxDestroy_v2", context)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise CudaError(f"{name} returned {status}")


def main() -> None:
    """Answer the request on standard input."""
    seconds = json.loads(sys.stdin.readline())["seconds"]
    try:
        answer = measure_clock(seconds)
    except (OSError, CudaError, ValueError, subprocess.SubprocessError) as error:
        answer = {"skipped": str(error)}
    print(json.dumps(answer))


def measure_clock(seconds: float) -> dict[str, object]:
    """Return the highest clock of `seconds` under load."""
    load = GpuLoad(ctypes.CDLL("libcuda.so.1"))
    load.start()
    deadline = time.monotonic() + seconds
    clocks = []
    while time.monotonic() < deadline and load.is_alive():
        clocks.append(read_gpu_clock())
        time.sleep(TICK)
    load.ends.set()
    load.join(seconds)
    if load.failure:
        raise CudaError(load.failure)
    return {"clock": max(clocks), "clocks": clocks}


def read_gpu_clock() -> int:
    """Return the clock of the first GPU's multiprocessors, MHz; ValueError where it has none."""
    done = subprocess.run(CLOCK, capture_output=True, text=True, timeout=10, check=True)
    return int(done.stdout.splitlines()[0])


if __name__ == "__main__":
    main()

"""Read the GPU's clock while it works: a latched power state shows only under load.

Request: ``seconds`` of load at most, and a clock that is ``enough``, MHz: the load ends before that
time once the clock is that high and rises no further. The load writes to memory of the GPU by the
driver's own library, so that it needs no engine and no container. Answer: ``clock``, MHz, the
highest that was seen under load; or ``skipped``, why there was no load.
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
TICK = 0.1  # seconds
BEGIN = 10.0  # seconds for the driver to begin the load


class CudaError(Exception):
    """The driver refused."""


class GpuLoad(threading.Thread):
    """Writes to memory of the first GPU until `ends` is set; `begun` is set once it has written."""

    def __init__(self, cuda: ctypes.CDLL) -> None:
        super().__init__(daemon=True)
        self.begun = threading.Event()
        self.ends = threading.Event()
        self.failure = ""
        self._cuda = cuda

    def run(self) -> None:
        """Write, and keep what the driver says against it."""
        try:
            self._write()
        except CudaError as error:
            self.failure = str(error)
        finally:
            self.begun.set()

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
            self.begun.set()
        self._call("cuCtxDestroy_v2", context)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise CudaError(f"{name} returned {status}")


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    try:
        answer = measure_clock(request["seconds"], request["enough"])
    except (OSError, CudaError, ValueError, subprocess.SubprocessError) as error:
        answer = {"skipped": str(error)}
    print(json.dumps(answer))


def measure_clock(seconds: float, enough: int) -> dict[str, object]:
    """Return the highest clock under load, of `seconds` or until it is `enough` and stays there."""
    load = GpuLoad(ctypes.CDLL("libcuda.so.1"))
    load.start()
    if not load.begun.wait(BEGIN):
        raise CudaError(f"the driver did not start the load within {BEGIN:.0f} s")
    deadline = time.monotonic() + seconds
    clocks: list[int] = []
    while time.monotonic() < deadline and load.is_alive() and not has_risen(clocks, enough):
        clocks.append(read_gpu_clock())
        time.sleep(TICK)
    load.ends.set()
    load.join(seconds)
    if load.failure:
        raise CudaError(load.failure)
    return {"clock": max(clocks), "clocks": clocks}


def has_risen(clocks: list[int], enough: int) -> bool:
    """Return whether a clock is high enough, and was not higher at the last look than before."""
    return len(clocks) > 1 and clocks[-1] >= enough and clocks[-1] <= max(clocks[:-1])


def read_gpu_clock() -> int:
    """Return the clock of the first GPU's multiprocessors, MHz; ValueError where it has none."""
    done = subprocess.run(CLOCK, capture_output=True, text=True, timeout=10, check=True)
    return int(done.stdout.splitlines()[0])


if __name__ == "__main__":
    main()

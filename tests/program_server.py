"""A bare Python that forks for each program of a host, which it has compiled before.

`tests/programs.py` starts it, isolated as on a host: a fork takes 5 ms where a start of Python with
the modules that programs import takes 60. It has imported nothing of sparkfleet: the modules of a
program arrive with it.
"""

from __future__ import annotations

import builtins
import importlib
import os
import re
import sys
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parents[1]
IMPORT = re.compile(rb"^(?:import|from) ([a-z_.]+)", re.MULTILINE)
_compile = builtins.compile
_compiled: dict[tuple[bytes, str], CodeType] = {}


def main() -> None:
    """Serve until the test process has exited."""
    sys.path.insert(0, str(ROOT))
    from tests.forking import serve_forks  # noqa: PLC0415 - not on the path of an isolated Python

    sys.path.pop(0)
    for path in (ROOT / "sparkfleet/onhost").rglob("*.py"):
        source = path.read_bytes()
        name = path.relative_to(ROOT).as_posix()
        _compiled[source, name] = _compile(source, name, "exec")
        for found in IMPORT.findall(source):
            module = found.decode()
            if module.split(".")[0] in sys.stdlib_module_names:
                importlib.import_module(module)
    builtins.compile = _compile_once  # type: ignore[assignment]  # of fewer arguments
    serve_forks(_become)


def _compile_once(source: Any, name: Any, *rest: Any, **more: Any) -> Any:
    """Compile a text, unless it is a program that was compiled before the fork."""
    known = _compiled.get((source, name)) if isinstance(source, bytes) else None
    return known or _compile(source, name, *rest, **more)


def _become(request: dict[str, Any]) -> None:
    """Be `python3 -I -S -c TEXT` in a session of its own."""
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["-c"]
    exec(request["text"], {"__name__": "__main__"})  # noqa: S102 - as -c does


if __name__ == "__main__":
    main()

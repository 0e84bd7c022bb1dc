"""An existing installation of torch, on top of which an engine can be installed.

The engine is then an environment of that Python in which torch, and what torch needs, are found by
a ``.pth`` file; all else is its own and comes first on its path.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkfleet.errors import UsageError

PTH = "sparkfleet-torch.pth"
CUDA = "13"  # the major release for which the wheels of the engine are built
# Runs with the Python in question, and so imports nothing but its library.
PROBE = r"""
import importlib.metadata as metadata, importlib.util, json, pathlib, re, sys
def name(text): return re.sub(r"[-_.]+", "-", text).lower()
found = importlib.util.find_spec("torch")
if found is None: sys.exit("it has no torch")
folder = pathlib.Path(found.origin).parent
there = {name(one.metadata["Name"]): one for one in metadata.distributions()}
bound, ahead = set(), ["torch"]
while ahead:
    one = ahead.pop()
    if one in there and one not in bound:
        bound.add(one)
        needs = there[one].requires or []
        ahead += [name(re.match(r"[\w.-]+", need)[0]) for need in needs if "extra ==" not in need]
cuda = re.search(r"^cuda\b[^=]*= *'([^']*)'", (folder / "version.py").read_text(), re.M)
print(json.dumps({
    "site": str(folder.parent), "prefix": sys.prefix, "cuda": cuda[1] if cuda else "",
    "packages": {one: there[one].version for one in there}, "bound": sorted(bound),
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTorch:
    """A Python with torch: `site` holds torch, `packages` are its packages with their versions.

    `bound` are torch and what torch needs there; `prefix` is the folder of the environment.
    """

    python: Path
    site: Path
    prefix: Path
    packages: Mapping[str, str]
    bound: frozenset[str]

    def without_provided(
        self, pins: Iterable[tuple[str, str]], shared: frozenset[str]
    ) -> list[tuple[str, str]]:
        """Return the pins that an engine on top of it needs of its own.

        Of `shared` packages any release will do that is there.
        """
        provided = self.bound | (shared & self.packages.keys())
        return [
            (name, version)
            for name, version in pins
            if name not in provided and _drop_build(self.packages.get(name, "")) != version
        ]


def find_base_torch(python: Path, pins: Iterable[tuple[str, str]]) -> BaseTorch:
    """Return the torch of a Python; raises UsageError unless it has the pinned one, for CUDA."""
    probed = _probe(python)
    pinned = dict(pins)["torch"]
    version = probed["packages"].get("torch", "")
    if _drop_build(version) != pinned or probed["cuda"].partition(".")[0] != CUDA:
        built_for = f"CUDA {probed['cuda']}" if probed["cuda"] else "the CPU"
        raise UsageError(
            f"--torch {python}: the engine needs torch {pinned} for CUDA {CUDA}, and this is torch"
            f" {version} for {built_for}",
            hint="without --torch, the engine installs its own torch",
        )
    return BaseTorch(
        python=python,
        site=Path(probed["site"]),
        prefix=Path(probed["prefix"]),
        packages=probed["packages"],
        bound=frozenset(probed["bound"]),
    )


def _probe(python: Path) -> dict[str, Any]:
    hint = "pass a Python program, such as python3 or /opt/torch/bin/python"
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", PROBE], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise UsageError(f"--torch {python}: {error.strerror}", hint=hint) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it failed"])[-1]
        raise UsageError(f"--torch {python}: {last}", hint=hint)
    return dict(json.loads(done.stdout))


def _drop_build(version: str) -> str:
    """Return a version without its build, as in 2.11.0+cu130."""
    return version.partition("+")[0]

"""Programs for hosts as zip archives in memory: import their modules and run them.

A program travels to a host as one zip of its own source, the modules of `sparkfleet.onhost` that it
imports, and this module. `START` is all that Python is started with there: it reads the archive
from standard input, not a byte more, and gives it to this module. Nothing is written on the host.

The importer is a finder of our own: zipimport reads only files with a path, and a memfd as one
(`/proc/self/fd/N`) costs each program a descriptor, which one that closes all others would lose.
"""

from __future__ import annotations

import io
import sys
import types
import zipfile
from importlib.machinery import ModuleSpec
from typing import Any

NAME = "sparkfleet.onhost.shared.program_archive"
PATH = "sparkfleet/onhost/shared/program_archive.py"
CONSUMED = "a start file of the login shell read a part of the program from its input"
# An archive begins with the letters PK.
START = f"""\
import io,os,sys,zipfile
b=b""
while len(b)<{{size}}:
 b+=os.read(0,{{size}}-len(b))or sys.exit("no program arrived")
 b"PK".startswith(b[:2])or sys.exit("{CONSUMED}")
m=sys.modules["{NAME}"]=type(sys)("{NAME}")
exec(compile(zipfile.ZipFile(io.BytesIO(b)).read("{PATH}"),"{PATH}","exec"),m.__dict__)
m.load_archive(b)
m.run_module("{{module}}")
"""


class ArchiveFinder:
    """Finds and loads modules in the archives that were added (`sys.meta_path`)."""

    def __init__(self) -> None:
        self.sources: dict[str, bytes] = {}  # by path in the archive
        self.codes: dict[str, Any] = {}  # by path; a fork of this process need not compile again

    def add(self, archive: bytes) -> None:
        """Add the files of a zip archive."""
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            for path in opened.namelist():
                self.sources.setdefault(path, opened.read(path))

    def compile_all(self) -> None:
        """Compile what was added, for the forks of this process."""
        for path in self.sources:
            self.compile(path)

    def compile(self, path: str) -> Any:
        """Return the code of a file."""
        if path not in self.codes:
            self.codes[path] = compile(self.sources[path], path, "exec")
        return self.codes[path]

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        """Return where the module `name` is, None if it is not in an archive."""
        base = name.replace(".", "/")
        for path, is_package in ((f"{base}.py", False), (f"{base}/__init__.py", True)):
            if path in self.sources:
                spec = ModuleSpec(name, self, origin=path, is_package=is_package)  # type: ignore[arg-type]  # it need not inherit from Loader
                spec.has_location = True
                return spec
        return None

    def create_module(self, _spec: ModuleSpec) -> None:
        """Let Python make the module."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the code of a module in it."""
        exec(self.compile(str(module.__file__)), module.__dict__)  # noqa: S102 - an importer

    def get_source(self, name: str) -> str | None:
        """Return the source of a module, for the lines in a traceback."""
        spec = self.find_spec(name)
        return None if spec is None else self.sources[str(spec.origin)].decode()


FINDER = ArchiveFinder()


def load_archive(archive: bytes) -> None:
    """Let the modules of a zip archive be imported, before any that the host has."""
    FINDER.add(archive)
    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)


def run_module(name: str) -> None:
    """Run a module of an archive as the program of this process, as `python -m` does."""
    spec = FINDER.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"no module {name} in the archive", name=name)
    main: Any = types.ModuleType("__main__")
    main.__spec__ = spec
    main.__file__ = spec.origin
    main.__loader__ = FINDER
    main.__package__ = spec.parent
    sys.modules["__main__"] = main
    FINDER.exec_module(main)

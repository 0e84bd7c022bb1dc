"""Programs for hosts that a test wrote, as commands."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

from sparkfleet.commands import ISOLATED_PYTHON, Command
from sparkfleet.onhost.shared.program_archive import PATH, START

ROOT = Path(__file__).parent.parent


def pack_program(text: str) -> Command:
    """Return the command that runs `text` as an on-host program."""
    module = f"trial_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.write(ROOT / PATH, PATH)
        opened.writestr(f"{module}.py", text)
    archive = buffer.getvalue()
    start = START.format(size=len(archive), module=module)
    return Command(argv=(*ISOLATED_PYTHON, "-c", start), archive=archive, program=module)

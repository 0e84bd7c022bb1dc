"""Compare the network with what links.apply has kept; read-only, without root.

Request: ``{}``. Answer: ``{"differences": [TEXT...]}``, empty also where nothing was applied.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sparkfleet.onhost.shared.network_change import APPLIED, stat_file
from sparkfleet.onhost.shared.rail_state import find_differences
from sparkfleet.onhost.shared.reading import load_json_object, read_optional_text


def main() -> None:
    """Answer the request on standard input."""
    sys.stdin.buffer.readline()
    applied = load_json_object(read_optional_text(APPLIED))
    print(json.dumps({"differences": list_differences(applied) if applied else []}))


def list_differences(applied: dict[str, dict[str, object]]) -> list[str]:
    """Return each file and rail that is not as in the record."""
    found = []
    for name, recorded in sorted(applied["files"].items()):
        now = stat_file(Path(name))
        if now != recorded:
            state = "is missing" if now is None else "exists" if recorded is None else "has changed"
            found.append(f"{name} {state} since links.apply")
    rails = {name: dict(own) for name, own in applied["rails"].items()}  # type: ignore[call-overload] # JSON
    return found + find_differences(rails)


if __name__ == "__main__":
    main()

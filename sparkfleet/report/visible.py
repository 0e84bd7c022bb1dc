"""Untrusted text made safe to show: what a terminal would obey is shown as an escape.

Hosts, logs, recipes and files can contain anything. All text for a screen, a table or a file that a
person reads passes through here; sparkfleet adds its colours afterwards.
"""

from __future__ import annotations

import re

# Characters that turn the direction of the text around them: https://www.unicode.org/reports/tr9/
TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# C0 but tab and LF, DEL, C1
ORDERS = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{TURNING}]")
# and all that ends a line
BREAKS = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{TURNING}]")
COLOUR = re.compile("\x1b\\[[0-9;:]*m")


def escape_control(text: str) -> str:
    r"""Return `text` with what a terminal would obey as escapes, as ``\x1b``; lines stay lines.

    CR LF is a line end. A carriage return alone is an escape: it would overwrite the line.
    """
    return ORDERS.sub(_format_escape, text.replace("\r\n", "\n"))


def escape_line(text: str) -> str:
    """Return `text` for use in one line, such as a comment: line ends and tabs are escaped."""
    return BREAKS.sub(_format_escape, text)


def clean_log_text(text: str) -> str:
    """Return a program's log, safe to show.

    Its colours are left out, and each state of a progress bar, that ends with a carriage return,
    is a line.
    """
    lines = COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return escape_control(lines)


def _format_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

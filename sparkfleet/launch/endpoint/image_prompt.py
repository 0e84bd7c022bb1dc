"""A prompt with an image of one colour; pure."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

IMAGE_QUESTION = "Which colour is this image? Answer with one word."
COLOUR = "red"
RED = b"\xff\x00\x00"
SIDE = 224  # pixels, the input size of common vision encoders


def build_image_prompt() -> Sequence[Mapping[str, Any]]:
    """Return the parts of a message that asks for the colour of an image."""
    url = f"data:image/png;base64,{base64.b64encode(_encode_png(RED, SIDE)).decode()}"
    return (
        {"type": "text", "text": IMAGE_QUESTION},
        {"type": "image_url", "image_url": {"url": url}},
    )


def _encode_png(colour: bytes, side: int) -> bytes:
    """Return a square PNG of one colour, 8 bits for each of R, G and B."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\x00" + colour * side) * side)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")

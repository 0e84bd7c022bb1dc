"""The adapters that --lora-modules names, in each form that vLLM takes.

Source: LoRAParserAction in vllm/entrypoints/openai/cli_args.py, 0.10 to 0.32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkfleet.vllm.options import parse_json_object


def parse_lora_modules(value: Any) -> dict[str, str]:
    """Return the path, or the name on the Hub, of each adapter by its name.

    What is not an adapter is left out.
    """
    items = value if isinstance(value, list | tuple) else (value,)
    return dict(pair for item in items for pair in _split_item(item))


def _split_item(item: Any) -> Iterator[tuple[str, str]]:
    fields: Mapping[str, Any] = parse_json_object(item)
    if fields.get("name") and fields.get("path"):
        yield str(fields["name"]), str(fields["path"])
    elif isinstance(item, str) and "=" in item and not item.lstrip().startswith("{"):
        name, _, path = item.partition("=")
        yield name.strip(), path.strip()

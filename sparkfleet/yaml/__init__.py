"""YAML with positions: nodes, source excerpts, duplicate keys."""

"""The cable map as text and as SVG."""

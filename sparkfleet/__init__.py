"""Turns one or more NVIDIA DGX Sparks into a served vLLM endpoint."""

__version__ = "0.1.0"

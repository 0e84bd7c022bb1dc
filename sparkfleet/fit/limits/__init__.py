"""Refusals of vLLM that do not depend on the memory."""

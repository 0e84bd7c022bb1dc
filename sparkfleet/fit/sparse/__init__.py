"""Sparse attention: the families that are known, and caches unlike those of others; pure."""

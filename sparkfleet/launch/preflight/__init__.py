"""Checks before a start: memory, GPU clock, logins, sizes."""

"""Cause and fix of a failed start, from the logs of its hosts."""

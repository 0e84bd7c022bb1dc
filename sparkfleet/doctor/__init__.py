"""Diagnosis of a failed start from the logs of its hosts."""

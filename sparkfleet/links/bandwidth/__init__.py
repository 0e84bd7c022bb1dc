"""Measured rates between hosts, and what rate each rail should reach."""

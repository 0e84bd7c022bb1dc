"""Faults of lab hosts and how each is injected."""

"""Playbooks: parsing, the order of tasks, the engine."""

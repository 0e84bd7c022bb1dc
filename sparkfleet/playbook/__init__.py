"""Playbooks: parsing, the engine, the lock."""

"""Engines, Ray, readiness and rollback."""

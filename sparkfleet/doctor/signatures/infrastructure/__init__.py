"""Failures around the engine: Ray's cluster, the Hub, the driver, and SSH."""

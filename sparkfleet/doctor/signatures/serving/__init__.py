"""Failures of what an engine serves: adapters, speculative decoding, requests."""

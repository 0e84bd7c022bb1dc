"""Watching a start: ranks, rendezvous, placement group, log patterns."""

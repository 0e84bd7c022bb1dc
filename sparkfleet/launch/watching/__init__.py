"""Watches a cluster: the log of its events, when to start it again, and whom to notify."""

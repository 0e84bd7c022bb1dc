"""Watching a cluster: its events, the watcher, its service, and how it starts a cluster again."""

"""Programs that receive, send, verify and prune weights."""

"""`weights.*`: stage, verify, list and prune models."""

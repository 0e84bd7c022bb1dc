"""Model weights: complete, the same, and proven on every node."""

"""The fabric: rails, cages, cables, and the verdict on each."""

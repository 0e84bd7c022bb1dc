"""What vLLM prints and measures: log milestones and metrics."""

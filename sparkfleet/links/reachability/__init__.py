"""The active gate: who answers whom, on which rail."""

"""The active gate: which hosts answer each other, on which rail."""

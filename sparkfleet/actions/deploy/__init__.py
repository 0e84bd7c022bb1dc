"""Actions that render, start, watch and stop a deployment."""

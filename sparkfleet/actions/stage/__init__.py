"""Actions that bring images and weights to the hosts."""

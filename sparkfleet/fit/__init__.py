"""Whether a model fits in the memory of the hosts, and how fast it can be; pure."""

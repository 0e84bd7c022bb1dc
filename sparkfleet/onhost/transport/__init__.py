"""The multiplexer and the shell wrappers that start programs on a host."""

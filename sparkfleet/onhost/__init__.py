"""Programs that are sent to a host and run there, with `parts`; standard library only."""

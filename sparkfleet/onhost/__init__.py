"""Programs that are sent to a host and run there, with `shared`; standard library only."""

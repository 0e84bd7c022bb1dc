"""Programs that are sent to a host and run there; standard library only, none of ours."""

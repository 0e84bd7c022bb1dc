"""Programs for a deployment on a host: start, stop, watch, lock."""

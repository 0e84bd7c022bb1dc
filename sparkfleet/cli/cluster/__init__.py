"""`cluster.*`: start, stop, inspect and lock a cluster."""

"""`hosts.*`: facts, checks and preparation of hosts."""

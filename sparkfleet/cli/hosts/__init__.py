"""`hosts.*`: host keys, SSH keys, facts, checks and preparation of hosts."""

"""Ways to a host: SSH, or this machine."""

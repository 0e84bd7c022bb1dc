"""Programs that read facts of a host and change its files."""

"""State read from one host, and the record of its deployment."""

"""Container images: distribution to all hosts, equality, and contents."""

"""`doctor`: the cause of a failed start, and its fix."""

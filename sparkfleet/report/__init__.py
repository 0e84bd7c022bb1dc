"""Reports of a run: events as text, JSON and JUnit."""

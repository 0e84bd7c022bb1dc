"""Reports of a run: its events as text, JSON, JUnit, a trace and a log."""

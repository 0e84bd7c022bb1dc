"""What a run tells: events to text, JSON and JUnit."""

"""Actions that check hosts, links and answers, and change nothing."""

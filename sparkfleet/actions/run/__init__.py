"""Actions that frame a run: lock, facts, recovery, receipt, rollback."""

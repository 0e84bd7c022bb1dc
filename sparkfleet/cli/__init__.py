"""The tasks, for `invoke` and for `sparkfleet`."""

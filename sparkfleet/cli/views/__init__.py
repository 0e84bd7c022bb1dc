"""Printing of results: the screen, tables, verdicts, documents."""

"""How results are printed: the screen, tables, verdicts."""

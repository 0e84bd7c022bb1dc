"""Shelves: recipes of a git repository or a folder, pinned and kept in the project."""

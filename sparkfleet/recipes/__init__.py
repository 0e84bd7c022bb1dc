"""Recipes: a model, its image, its flags, and where each figure comes from."""

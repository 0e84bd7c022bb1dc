"""`recipes.fit`: its inputs and output; whether a recipe fits an inventory or so many Sparks."""

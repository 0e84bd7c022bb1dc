"""`docs`: the manual."""

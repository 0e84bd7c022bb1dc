"""`inventory.*`: what an inventory means."""

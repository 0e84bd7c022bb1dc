"""`serve.*`: check, benchmark and watch what is served."""

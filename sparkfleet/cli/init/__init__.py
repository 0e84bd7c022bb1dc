"""`init`: creates a project for your Sparks, with its inventory."""

"""`init`: a project for the Sparks at hand, with an inventory that is right."""

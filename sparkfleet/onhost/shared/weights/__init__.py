"""Modules about the files of a model that several programs share."""

"""Modules that several programs share; the archive of a program includes those that it imports."""

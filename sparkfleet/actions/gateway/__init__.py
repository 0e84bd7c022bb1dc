"""Actions on the gateway: render, start or reload, check, stop, compare, and leave it."""

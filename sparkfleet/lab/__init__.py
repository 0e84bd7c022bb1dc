"""The embedded fleet: simulated Sparks on this machine."""

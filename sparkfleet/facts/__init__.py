"""What a host says about itself, read in one round trip."""

"""Plans the addresses of the fabric from its cabling, and applies the plan."""

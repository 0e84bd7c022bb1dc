"""`links.*`: the cable map, the gate, and measured bandwidth."""

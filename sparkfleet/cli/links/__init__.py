"""`links.*`: the cable map, the gate, measured bandwidth, and addresses."""

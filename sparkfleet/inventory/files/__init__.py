"""Files of an inventory: YAML, INI and group_vars, read into one tree."""

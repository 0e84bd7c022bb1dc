"""`gateway.*`: one address for the models of all clusters."""

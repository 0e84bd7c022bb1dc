"""`recipes.*`: the catalogue, validation, and memory fit."""

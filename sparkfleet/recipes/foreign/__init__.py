"""Recipes of other tools: eugr, sparkrun, spark-pulse and NVIDIA, read as our own."""

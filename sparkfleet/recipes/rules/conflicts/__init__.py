"""Rules on options that vLLM refuses together, or with the checkpoint at hand."""

"""The engine of lab hosts: Ray and vLLM on the CPU, a tiny model, Docker."""

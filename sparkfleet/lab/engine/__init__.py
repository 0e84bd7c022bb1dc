"""What lab hosts serve with: Ray and vLLM on the CPU, a tiny model, Docker."""

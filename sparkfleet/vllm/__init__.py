"""Knowledge of vLLM itself: its options, releases, log milestones and metrics."""

"""The served endpoint: requests, replies, correctness and throughput."""

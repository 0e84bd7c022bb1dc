"""The page of a cluster: collects its content from the hosts, and serves it."""

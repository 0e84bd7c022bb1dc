"""The page of a cluster: its content as HTML, its server, and metrics for Prometheus."""

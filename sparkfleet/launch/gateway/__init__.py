"""The gateway: HAProxy on one host, which answers for the models of all clusters."""

"""What several programs for hosts share: each module is sent along with who imports it."""

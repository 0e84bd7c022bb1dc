"""The playbook's vocabulary, one small module an action."""

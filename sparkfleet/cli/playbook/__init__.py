"""`playbook.*`, and how every task runs a playbook: prepared offline, then executed."""

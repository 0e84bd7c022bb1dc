"""Hosts, groups and variables from real Ansible inventory files."""

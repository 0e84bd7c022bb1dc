"""The actions of playbooks, a module for each."""

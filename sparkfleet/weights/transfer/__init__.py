"""Transfers of weights between hosts: plan, routes, progress."""

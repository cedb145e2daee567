"""Clients: one per wire dialect, on one transport and below one retry loop."""

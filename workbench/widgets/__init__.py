"""Widgets that two or more features use."""

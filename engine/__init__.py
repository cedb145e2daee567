"""Flow engine."""

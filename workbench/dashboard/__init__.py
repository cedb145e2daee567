"""The dashboard: what recorded requests cost, used and how they ended."""

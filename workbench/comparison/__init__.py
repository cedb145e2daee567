"""The page Compare: the same over several profiles, side by side."""

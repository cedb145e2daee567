"""The settings: pages of fields that hold at once."""

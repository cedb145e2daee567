"""Desktop workbench."""

"""Charts of the running flow."""

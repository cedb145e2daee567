"""The sections of the inspector, a module for each."""

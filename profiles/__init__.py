"""Bundled model profiles (read-only): one `.properties` file each, and the category map `categories.properties`."""

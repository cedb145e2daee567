"""`python -m tests.conformance PATH…`: runs vector files and wire fixtures against the product."""

"""Providers as an operator sees them: listed, checked, added."""

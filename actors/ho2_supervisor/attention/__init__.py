"""Context assembly by templates."""

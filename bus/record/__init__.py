"""What stands in the record: entries, and their bytes."""

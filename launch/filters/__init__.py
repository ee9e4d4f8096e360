"""One filter language for the tap, the record and whatever else lists things. Pure."""

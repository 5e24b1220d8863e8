"""Files → typed columns: which bytes are a record, which text is a value, and why a bad one is bad."""

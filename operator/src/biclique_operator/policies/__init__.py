"""What is decided about a query: one rule in a file, each a function of what was observed and of the time. Pure."""

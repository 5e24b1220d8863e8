"""From a Query to a plan, one rule per file in one ordered tuple, and its explanation. Pure."""

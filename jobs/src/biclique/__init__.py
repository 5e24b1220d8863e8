"""Biclique joins unbounded streams on any predicate, exactly once, on Spark."""

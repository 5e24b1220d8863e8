"""Block against run to ranges of matches: equi, band, inequality, residual, aggregate. Pure."""

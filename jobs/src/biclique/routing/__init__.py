"""Where a tuple is stored and where it probes, one strategy per file. Pure."""

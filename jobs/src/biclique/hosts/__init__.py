"""Composition roots that drive the tiers' logic: embedded, units, shuffle. Shell."""

"""Biclique's operator: turns a JoinQuery into running tiers, and says in its status what they do and why."""

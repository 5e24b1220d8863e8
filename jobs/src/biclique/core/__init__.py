"""The words every tier shares: ids, stamps, blocks, frontier, window, segment. Pure."""

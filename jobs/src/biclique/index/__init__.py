"""One index per file behind one small protocol. Pure."""

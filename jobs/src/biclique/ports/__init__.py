"""What the tiers need from outside: a protocol first, then each implementation. Shell."""

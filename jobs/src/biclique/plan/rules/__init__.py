"""The planner's rules, one a file, in the order of make.py's tuple: each takes a draft and gives a draft."""

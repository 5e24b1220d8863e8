"""The biclique command: run, validate, explain, bench. Shell."""

"""The benchmarks: the core's kernels and stores, the embedded engine, and its peers, in one run on one machine."""

"""What a query wants to exist: one Kubernetes kind in a file, each a function from values to an object. Pure."""

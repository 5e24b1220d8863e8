"""A real Kubernetes on this machine: one node for the tests on a cluster, its API server alone for the operator's."""

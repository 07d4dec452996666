"""A whole, real Kubernetes on one machine, without Docker and without root. Only the container runtime is ours."""

"""Leader election among the replicas, by a Lease. It decides who may write, and writes only the Lease itself."""

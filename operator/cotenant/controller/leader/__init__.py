"""Leader election among the replicas by a Lease. Decides who may write; writes nothing but the Lease itself."""

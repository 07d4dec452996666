"""Pure builders: one attempt of a job → its pods, Service, Secret, NetworkPolicy. No client, clock or randomness."""

"""Faults, the jobs that they hit, and the invariants that must hold: for `bench.chaos` and `bench.chaos_cluster`."""

"""Mutants of a source file, and the runs of the plain tests on them, for `bench.mutants`. The checkout is only read."""

"""The decision: pure, integer, deterministic. No clock, no I/O, no logging, no Kubernetes; `schedule` is the heart."""

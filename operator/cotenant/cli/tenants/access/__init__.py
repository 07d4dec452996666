"""Ways into a running pod: a shell, a port, a session. All use kubectl with the caller's own rights."""

"""Ways into a pod that runs: a shell, a port, a session. All go through kubectl, with the caller's own rights."""

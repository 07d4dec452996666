"""Objects of a namespace as handles, read from the API server each time: the common part, jobs, sweeps, sessions."""

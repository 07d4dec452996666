"""Objects of a namespace as handles, read from the API server each time: what all have, jobs, sweeps, sessions."""

"""The API `query.cotenant.dev`, which the API server's aggregator forwards to the replica that leads.

`server` listens and answers, `front_proxy` identifies the caller, `access` finds what the caller may read, `questions`
runs the pure answers of `cotenant.query` within bounds, and `endpoint` publishes where the leader is. Open to `main`.
"""

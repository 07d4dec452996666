"""The API `query.cotenant.dev`, which the API server's aggregator passes on to the replica that leads.

`server` listens and answers, `front_proxy` knows who asks, `access` what they may, `questions` runs pure answers of
`cotenant.query` in bounds, `endpoint` writes where the leader is. Open to `main`.
"""

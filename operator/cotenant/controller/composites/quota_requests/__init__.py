"""QuotaRequests: a tenant asks, an administrator answers, and a grant ends by time.

A live grant is added to the core's queues (`api.conversion.quota_grants`). This package decides the status:
`request_step` decides, `quota_request_kind` reads what it needs.
"""

"""QuotaRequests: asked for by tenants, answered by administrators, ended by time. What is live feeds the core's queues
(`api.conversion.quota_grants`); here is what stands in their status. `request_step` decides, `kind` reads the
surroundings.
"""

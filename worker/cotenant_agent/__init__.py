"""The node agent: inventory by NVML, health, attribution, enforcement. It reports; the operator acts."""

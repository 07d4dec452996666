"""What runs in the pod of a tenant: limits GPU memory, forms the Ray cluster, trains, reports."""

"""Reports beside the decisions: progress of jobs, statuses and gauges of queues, slow GPUs. They never decide."""

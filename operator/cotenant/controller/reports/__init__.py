"""What is reported beside decisions: progress of jobs, statuses and gauges of queues, slow GPUs. It never decides."""

"""What is told of a job besides the decision about it: jobs that are set aside, what is seen of those that run."""

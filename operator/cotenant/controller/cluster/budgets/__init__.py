"""What queues have spent of their budgets: meters of jobs, an account for each queue, all accounts together.

`budgets` is the door; the arithmetic of one budget is `core.quota.budget`.
"""

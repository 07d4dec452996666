"""The acting half: the loop, what it observes of a job, and the writes that carry decisions out.

Nothing else writes a TrainingJob or a pod. Decisions are made elsewhere: `lifecycle` decides for one job, the core for
all.
"""

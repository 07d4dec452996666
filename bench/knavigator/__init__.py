"""Gangs of TrainingJobs for NVIDIA's knavigator: its templates and its workflow, and a cluster to play them on."""

"""Sessions: each is a TrainingJob of one worker, which is suspended with its session. `session_step` decides. Pure."""

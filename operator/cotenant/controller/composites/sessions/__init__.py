"""Sessions: each is a TrainingJob of one worker, held back while it is suspended. `session_step` decides, pure."""

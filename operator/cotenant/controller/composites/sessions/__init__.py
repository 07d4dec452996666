"""Sessions: each is a TrainingJob of one worker, held back while it is suspended. `plan` decides, pure."""

"""Models of TrainingJob, Queue and GPUNode, field by field, each rule beside its field. No I/O and no clock."""

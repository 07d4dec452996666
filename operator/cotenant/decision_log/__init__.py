"""The decision log: what was decided when and from what, and the end of each run. Values, and lines of JSON.

`cycles`, `timelines`, `runs` and `measured_use` are what is recorded. `capsule` is one decision with all its inputs.
`lines` is the format on a volume (docs/administrators.md). Pure: the controller decides who writes, where and how much.
"""

"""The fault library: for each type one function that changes a node's circumstances, never its metrics.

What the metrics then show follows from the physics. `effect` is the share by which the fault slows the job's step,
for those that slow it.
"""

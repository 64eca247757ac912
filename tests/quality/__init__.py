"""What the detectors are worth: drills on seeds that nobody tuned on, real nodes, public benchmarks, plain rivals."""

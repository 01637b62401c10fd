"""Plan a launch from a model folder before it is tried."""

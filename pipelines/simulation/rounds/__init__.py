"""Markets in which things fail: rounds of the product's decisions, under the simulator's faults."""

"""What plans are held against: the same graph, on the same data, run another way."""

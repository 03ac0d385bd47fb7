"""One graph run in many ways on the same data, fused and not: what fusing gains, and where it does not."""

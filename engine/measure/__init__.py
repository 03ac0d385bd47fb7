"""WHAT a GPU does: data, execution, comparison with a reference, and time. Everything here imports torch and runs in
the GPU worker process only."""

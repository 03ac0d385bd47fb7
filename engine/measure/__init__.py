"""WHAT a GPU does: data, execution, comparison with a reference, and time. Everything here imports torch and runs in
the GPU worker process only, but for the rules of sampling and what is told of it (screening, rounds, sampling,
findings)."""

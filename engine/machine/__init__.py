"""What this machine has (a GPU, a driver library), and the set-up of what is missing.

The set-up runs before any package is installed: nothing here imports more than the standard library.
"""

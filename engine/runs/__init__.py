"""WHAT was seen: runs in a store that loses nothing, run files to hand on, and the recordings shipped with
the project."""

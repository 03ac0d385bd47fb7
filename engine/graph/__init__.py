"""WHAT is computed: graph specifications, the operations they are made of, and the catalogue of pipelines.

Nothing here imports torch or cudnn; a function that needs one of them receives the module as an argument.
"""

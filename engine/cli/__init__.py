"""The same capabilities without a browser: ``python -m engine``.

Command modules hold signatures and import what they work with inside their functions, so that a command starts as fast
as what it needs allows. This process imports neither torch nor cudnn.
"""

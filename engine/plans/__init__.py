"""WHAT cuDNN offers: targets, candidates, built and serialized plans, and the reasons of a refusal.

Nothing here imports cudnn or torch: ``targets``, ``properties``, ``limits`` and ``refusals`` run anywhere, and what
needs cuDNN receives the module as an argument, in a worker process.
"""

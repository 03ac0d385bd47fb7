"""What pages share: entry point, cached resources, links, forms, charts, the drawing of a graph.

Never torch or cudnn, not even through an import.
"""

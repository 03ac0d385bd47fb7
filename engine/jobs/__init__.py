"""WHO does it: the only room that starts processes. Builders build plans, a worker owns a GPU, a
manager keeps the queue."""

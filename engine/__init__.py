"""Everything of Planscope that is not a picture: graphs, plans, measurements, runs and bundles. Usable without a browser."""

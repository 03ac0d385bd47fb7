"""Everything of Planscope that is not a picture: graphs, plans, measurements, runs, bundles. Usable without a browser."""

"""Everything of Planscope that is no picture: graphs, plans, measurements, runs, bundles. Works without a browser."""

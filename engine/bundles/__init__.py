"""WHAT is handed over: one plan as a zip that loads without Planscope."""

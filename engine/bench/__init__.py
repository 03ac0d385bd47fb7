"""HOW WELL it is done: this project's own speed and timing, held against the straightforward way and other timers."""

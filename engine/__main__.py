"""``python -m engine``: the command line."""

import os
import signal

if __name__ == "__main__":
    # Imports take a moment, and Ctrl-C in it is no reason for a traceback; afterwards commands decide what to keep.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

    from engine.cli.app import app

    signal.signal(signal.SIGINT, signal.default_int_handler)
    app(prog_name="python -m engine")

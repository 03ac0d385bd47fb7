"""``python -m engine``: the command line."""

import os
import signal


def _cancelled(*_: object) -> None:
    os.write(2, b"\nerror: cancelled\n")
    os._exit(130)


if __name__ == "__main__":
    # Ctrl-C ends the process then and there: an exception in the middle of an import, or of a model that is being made
    # there, is swallowed or becomes another. Commands that have something to keep handle it themselves.
    signal.signal(signal.SIGINT, _cancelled)

    from engine.cli.app import app

    app(prog_name="python -m engine")

"""``python -m engine``: the command line."""

from engine.cli.app import app

if __name__ == "__main__":
    app(prog_name="python -m engine")

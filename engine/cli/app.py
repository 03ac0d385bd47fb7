"""The application: its commands, and the one place where errors become messages and exit statuses.

0: done, also when some plans failed. 1: cuDNN refuses the graph, no plan succeeded, or the machine cannot do it. 2: bad
arguments, a value outside its limits, an unreadable or unwritable file. 130: cancelled.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from engine.cli import bench, bundles, fusion, machine, planning, reusing, runs, sweeping
from engine.cli.output import Failed, emit_json, open_streams, say
from engine.graph.errors import FieldError, InvalidInput

# Newer typers carry a click of their own, so its exceptions are taken from where they lie.
_ClickError: Any = typer.BadParameter.__mro__[2]


_OF_THE_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Why a stream cannot be written; where a file cannot be, the error has its name."""


class Cancelled(Exception):
    """Ctrl-C where there was nothing to keep."""


class Commands(TyperGroup):
    """The top of the command line."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was parsed; newer typers would make an exit status of Ctrl-C before it is told."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Cancelled from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; ends the process with its status unless ``standalone_mode`` is off."""
        given = sys.argv[1:] if args is None else list(args)

        def run() -> Any:
            return super(Commands, self).main(given, prog_name, complete_var, False, windows_expand_args, **extra)

        open_streams()
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
        status = guarded(run, "--json" in given)
        if standalone_mode:
            sys.exit(status)
        return status


def guarded(run: Callable[[], Any], as_json: bool) -> int:
    """The exit status of a command; errors go to stderr, and with ``as_json`` to stdout as {"error": ...} too."""
    try:
        status = _ended(run, as_json)
        sys.stdout.flush()
        return status
    except OSError as error:
        return _give_up(error)


def _ended(run: Callable[[], Any], as_json: bool) -> int:
    try:
        status = run()
        return status if isinstance(status, int) else 0
    except InvalidInput as error:
        return _report(str(error), error.errors, as_json, 2)
    except _ClickError as error:
        return _report_usage(error, as_json)
    except Failed as error:
        return _report(str(error), (FieldError("", "", error.message, error.remedy),), as_json, 1)
    except (Cancelled, KeyboardInterrupt, typer.Abort):
        return _report("cancelled", (), as_json, 130)
    except OSError as error:
        if error.filename is None and error.errno in _OF_THE_OUTPUT:
            raise
        return _report(str(error), (), as_json, 1)


def _report_usage(error: Any, as_json: bool) -> int:
    """What the parser of arguments has to say; a command without its subcommand gets its help."""
    message = str(error.format_message()).strip()
    if message.startswith("Usage:"):
        say(message)
        return int(error.exit_code)
    names = getattr(getattr(error, "param", None), "opts", None) or [getattr(error, "option_name", None) or ""]
    command = getattr(getattr(error, "ctx", None), "command_path", "python -m engine")
    remedy = f"`{command} --help` shows what it takes."
    return _report(
        f"{message.rstrip(chr(46))}. {remedy}",
        (FieldError(names[0], "", message, remedy),),
        as_json,
        int(error.exit_code),
    )


def _report(message: str, errors: tuple[FieldError, ...], as_json: bool, status: int) -> int:
    if as_json:
        fields = [{"field": e.field, "value": e.value, "rule": e.rule, "remedy": e.remedy} for e in errors]
        emit_json({"error": {"message": message, "fields": fields}})
    say("error: " + message.replace("\n", "\n       "))
    return status


def _give_up(error: OSError) -> int:
    """What there is to say cannot be written. Whoever read it has gone (``| head``): say nothing more, not even when
    Python flushes at its end. The disk is full: a word about it on stderr."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    try:
        if error.errno != errno.EPIPE:
            say(f"error: the output cannot be written: {error.strerror or error}")
    except OSError:
        os.dup2(nowhere, sys.stderr.fileno())
    return 1


app = typer.Typer(
    cls=Commands,
    name="engine",
    help="Explore cuDNN operation graphs: plan them, sweep their execution plans, hand over the best one.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("env")(machine.env)
app.command("pipelines")(machine.pipelines)
app.command("plan")(planning.plan)
app.command("sweep")(sweeping.sweep)
app.command("fusion")(fusion.fusion)
app.command("reuse")(reusing.reuse)
app.add_typer(runs.commands, name="runs")
app.add_typer(bundles.commands, name="bundle")
app.add_typer(bench.commands, name="bench")

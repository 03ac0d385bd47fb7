"""Finding the run that a person means: an id, the beginning of one, or a run file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.cli.output import Failed, read_file, say
from engine.graph.errors import FieldError, InvalidInput, invalid

if TYPE_CHECKING:
    from engine.records.run import RunRecord
    from engine.runs.library import Library
    from engine.runs.store import Store
    from engine.runs.summary import Origin

_SHORTEST = 4


@contextmanager
def open_store() -> Iterator[Store]:
    """The store of runs. Raises InvalidInput where the data folder cannot be used, Failed where the database cannot."""
    from engine.runs.home import data_home
    from engine.runs.store import Store, StoreError

    try:
        with Store(data_home()) as store:
            yield store
    except StoreError as error:
        raise Failed(str(error)) from None


@contextmanager
def open_library() -> Iterator[Library]:
    """Own runs and recordings; recordings alone, and a word about it, where the store cannot be opened."""
    from engine.runs.home import data_home
    from engine.runs.library import Library
    from engine.runs.store import Store, StoreError

    try:
        store = Store(data_home())
    except (InvalidInput, StoreError) as error:
        say(f"note: only the recordings that ship with Planscope can be read: {error}")
        yield Library(None)
        return
    try:
        with store:
            yield Library(store)
    except StoreError as error:
        raise Failed(str(error)) from None


def find_id(library: Library, text: str) -> str:
    """The full id of a run that is named by it or by its beginning; raises InvalidInput."""
    ids = [summary.id for summary in library.summaries()]
    wanted = text.strip().lower()
    if wanted in ids:
        return wanted
    found = [run_id for run_id in ids if run_id.startswith(wanted)] if len(wanted) >= _SHORTEST else []
    if len(found) == 1:
        return found[0]
    if found:
        raise invalid("run", text, f"{len(found)} runs begin so.", "Give more of the id.")
    if library.store is None:
        rule = "no recording has this id, and runs of your own cannot be read now."
        raise invalid("run", text, rule, "Mend the data folder: `runs list` says what is wrong with it.")
    raise invalid("run", text, "there is no run of this id, nor a run file of this name.", "`runs list` shows them.")


@contextmanager
def open_run(text: str) -> Iterator[tuple[RunRecord, Callable[[str], bytes], Origin]]:
    """A run by id or file, what gives a serialized plan of it by its SHA-256, and where it comes from."""
    from engine.runs.summary import Origin

    path = Path(text)
    if "/" in text or text.endswith(".zip") or _is_file(path):
        from engine.runs.archive_reading import MAX_FILE_BYTES, read_run_file

        data = read_file(path, "run file", MAX_FILE_BYTES)
        with naming(path):
            file = read_run_file(data)
        yield file.run, file.blobs.__getitem__, Origin.IMPORTED
        return
    with open_library() as library:
        run = library.get(find_id(library, text))
        origin = next(summary.origin for summary in library.summaries() if summary.id == run.id)
        yield run, lambda sha256: library.blob(run.id, sha256), origin


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Complaints about what is in a run file, with the file's own name in them."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(*(_of_file(path, e) for e in error.errors)) from None


def _of_file(path: Path, error: FieldError) -> FieldError:
    inside = "" if error.field == "run file" else f"{error.field} in it: "
    return FieldError("run file", str(path), inside + error.rule, error.remedy)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # longer than a file's name can be
        return False

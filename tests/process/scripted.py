"""What the scripted builder and worker share: a script in a file, and a diary of who started and what was asked."""

import json
import os
import sys
import time
from pathlib import Path

VARIABLE = "PLANSCOPE_TEST_SCRIPT"


class Script:
    """The script of this process's role, read from the folder that the environment names."""

    def __init__(self, role):
        self.folder, self.role = Path(os.environ[VARIABLE]), role
        everything = json.loads((self.folder / "script.json").read_text())
        self.acts = everything.get(role, {})
        self.common = everything

    def note(self, what):
        """Add a line to the diary; gives how often that has been noted before."""
        path = self.folder / f"{self.role}.diary"
        before = path.read_text().splitlines() if path.exists() else []
        with path.open("a") as diary:
            diary.write(f"{os.getpid()} {time.monotonic()} {what}\n")
        return sum(line.split(" ", 2)[2] == what for line in before)

    def act(self, what, channel):
        """Do what the script has for this moment: nothing, or what ends the process. A list has one act per time."""
        time_before = self.note(what)
        act = self.acts.get(what)
        if isinstance(act, list):
            act = act[time_before] if time_before < len(act) else None
        match act:
            case "crash":
                os.abort()
            case "exit":
                print("the device is gone", file=sys.stderr)
                os._exit(3)
            case "hang":
                time.sleep(600)
            case "garbage":
                os.write(channel._out.fileno(), b"Warning: something\n")
            case float() | int():
                time.sleep(act)
        return act


def diary(folder, role):
    """[(pid, when, what)] in the order noted; ``when`` by the clock that all processes share."""
    path = folder / f"{role}.diary"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(pid), float(when), what) for pid, when, what in (line.split(" ", 2) for line in lines)]

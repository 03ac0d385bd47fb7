"""A worker of the protocol that does one odd thing per request, as asked."""

import os
import subprocess
import sys
import time

from engine.jobs.protocol import EVENT_LIMIT, Channel, die_with_parent


def main():
    channel = Channel()
    die_with_parent()
    for request in channel.requests():
        match request["op"]:
            case "echo":
                channel.send(request, "done", text=request["text"], pid=os.getpid())
            case "several":
                for number in range(request["count"]):
                    channel.send(request, "item", number=number)
                channel.send(request, "done")
            case "print":
                print("a library's own words")
                os.system("echo and a child of it")
                sys.stdout.flush()
                channel.send(request, "done")
            case "too_long":
                channel.send(request, "done", text="x" * EVENT_LIMIT)
            case "long":
                channel.send(request, "done", text="x" * (EVENT_LIMIT - 1000))
            case "endless":
                channel._out.write(b"x" * (EVENT_LIMIT + 1000) + b"\n")
                channel._out.flush()
            case "raw":
                os.write(channel._out.fileno(), bytes.fromhex(request["hex"]))
            case "exit":
                print("last words", file=sys.stderr)
                sys.exit(request["status"])
            case "abort":
                os.abort()
            case "hang":
                time.sleep(60)
            case "child":
                child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
                channel.send(request, "done", child=child.pid)


if __name__ == "__main__":
    main()

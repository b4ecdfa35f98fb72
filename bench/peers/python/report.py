"""What every adapter prints, and the text that every message carries."""

import asyncio
import os
import secrets
import sys
import threading
import time

# In the environment, so that the processes a peer starts for itself know it too.
MODE = "PEER_MODE"
URL = "PEER_URL"

_count = 0
_lock = threading.Lock()


def text(size):
    """A random ASCII text of `size` bytes."""
    return secrets.token_hex((size + 1) // 2)[:size]


def shares(count, parts):
    """`count` cut into `parts` nearly equal numbers."""
    return [count // parts + (part < count % parts) for part in range(parts)]


def say(line):
    """Prints one line, past whatever a peer has done to sys.stdout."""
    os.write(1, f"{line}\n".encode())


def handle(_text):
    """The handler: counts, or begins and does not end within any measurement."""
    if os.environ.get(MODE) == "hold":
        say("begun")
        time.sleep(600)
    _tick()


async def handle_async(_text):
    """The same for peers whose handlers are coroutines."""
    if os.environ.get(MODE) == "hold":
        say("begun")
        await asyncio.sleep(600)
    _tick()


def _tick():
    global _count
    # Some peers handle on several threads.
    with _lock:
        _count += 1


def _tell():
    told = 0
    while True:
        time.sleep(0.02)
        if _count != told:
            told = _count
            say(f"done {told}")


def main(enqueue, work):
    """Runs the part that the command line names, see ../README.md."""
    arguments = sys.argv[1:]
    # What a peer's own command line would otherwise take for its arguments.
    del sys.argv[1:]
    match arguments:
        case ["enqueue", url, count, size]:
            enqueue(url, int(count), int(size))
        case ["work", url, "count" | "hold" as mode]:
            os.environ[MODE] = mode
            os.environ[URL] = url
            if mode == "count":
                threading.Thread(target=_tell, daemon=True).start()
            work(url, mode == "count")
        case _:
            sys.exit("usage: enqueue URL COUNT SIZE | work URL count|hold")

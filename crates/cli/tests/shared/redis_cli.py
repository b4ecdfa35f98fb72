#!/usr/bin/env python3
# Stands in for redis-cli in tests of documents: the tests' servers come without it.
import os, socket, sys

def answer(replies):
    line = replies.readline().decode().rstrip("\r\n")
    kind, rest = line[0], line[1:]
    if kind == "$":
        return "" if rest == "-1" else replies.read(int(rest) + 2)[:-2].decode()
    if kind == "*":
        return "\n".join(answer(replies) for _ in range(int(rest)))
    return rest

words = [sys.argv[1:]] if sys.argv[1:] else [line.split() for line in sys.stdin]
with socket.create_connection(("127.0.0.1", int(os.environ["TEST_PORT"]))) as connection:
    replies = connection.makefile("rb")
    for command in words:
        parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in command]
        connection.sendall(f"*{len(command)}\r\n{''.join(parts)}".encode())
        print(answer(replies))

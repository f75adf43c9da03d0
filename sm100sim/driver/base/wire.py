"""The program's side of the connection: its memory, its functions and its calls.

The libraries in ``c`` send the name and the argument words of every call. Until the call returns,
its handler may read and write the program's memory and call its functions through a `Program`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Final

MESSAGE: Final = struct.Struct("<5Q")
WORDS: Final = struct.Struct("<16Q")
RETURN, READ, WRITE, MOVE, FILL, STRING, CALL, RESOLVE, PRINT = range(9)
BEGIN, ANSWER = 1, 2
"""The same numbers in libcuda.c."""

Dispatch = Callable[[str, tuple[int, ...]], int]


def _nothing(name: str, _words: tuple[int, ...]) -> int:
    raise RuntimeError(f"{name} was called before anything was served")


class Ended(Exception):
    """The program closed its connection."""


class Program:
    """A program's process.

    Addresses are the program's own; device addresses are reached although it could not itself.

    Attributes:
        thread: number of the program's thread whose call is answered.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.thread = 0
        self._connection = connection
        self._dispatch: Dispatch = _nothing

    def serve(self, dispatch: Dispatch) -> None:
        """Answer calls by `dispatch`, which gives what they return, until the program ends."""
        self._dispatch = dispatch
        try:
            while True:
                kind, length, thread, *_ = self._receive_message()
                if kind != BEGIN:
                    raise Ended
                self._answer_call(length, thread)
        except (Ended, ConnectionError):
            return

    def read(self, address: int, count: int) -> bytes:
        """`count` bytes of the program's memory."""
        if not count:
            return b""
        self._send(READ, address, count)
        self._wait()
        return self._receive(count)

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into the program's memory."""
        self._connection.sendall(MESSAGE.pack(WRITE, address, len(data), 0, 0) + data)

    def move(self, target: int, source: int, count: int) -> None:
        """Copy inside the program's memory, as memmove does."""
        self._send(MOVE, target, source, count)

    def fill(self, target: int, value: int, width: int, count: int) -> None:
        """Set `count` elements of `width` bytes."""
        self._send(FILL, target, value, width, count)

    def string(self, address: int) -> str:
        """The text that ends with a zero."""
        self._send(STRING, address)
        return self._receive(self._wait()).decode(errors="replace")

    def call(self, function: int, *words: int) -> int:
        """Call a function of the program with up to three words; what it returned."""
        self._send(CALL, function, *words)
        return self._wait()

    def print(self, text: str) -> None:
        """Put a text on the program's standard output, after what it has printed there."""
        raw = text.encode(errors="surrogateescape")
        self._connection.sendall(MESSAGE.pack(PRINT, len(raw), 0, 0, 0) + raw)

    def settle(self) -> None:
        """Wait until the program has done what it was asked to do."""
        self._send(READ, 0, 0)
        self._wait()

    def resolve(self, name: str) -> int:
        """Address of an entry point of libcuda in the program; 0 when it has none."""
        self._send(RESOLVE, len(name))
        self._connection.sendall(name.encode())
        return self._wait()

    def read_words(self, address: int, form: str) -> tuple[int, ...]:
        """Numbers by a form of `struct`, without padding."""
        packed = struct.Struct("<" + form)
        return packed.unpack(self.read(address, packed.size))

    def put(self, address: int, form: str, *values: float) -> None:
        """Write numbers by a form of `struct`; nothing when the address is null."""
        if address:
            self.write(address, struct.pack("<" + form, *values))

    def _send(self, kind: int, *words: int) -> None:
        mask = 2**64 - 1
        padded = (*(word & mask for word in words), 0, 0, 0, 0)[:4]
        self._connection.sendall(MESSAGE.pack(kind, *padded))

    def _wait(self) -> int:
        """The word of the answer; calls that the program makes meanwhile are answered first."""
        while True:
            kind, word, thread, *_ = self._receive_message()
            if kind == ANSWER:
                return word
            self._answer_call(word, thread)

    def _answer_call(self, length: int, thread: int) -> None:
        name = self._receive(length).decode()
        words: tuple[int, ...] = WORDS.unpack(self._receive(WORDS.size))
        before, self.thread = self.thread, thread
        answer = self._dispatch(name, words)
        self.thread = before
        self._send(RETURN, answer)

    def _receive_message(self) -> tuple[int, ...]:
        return MESSAGE.unpack(self._receive(MESSAGE.size))

    def _receive(self, count: int) -> bytes:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            got = self._connection.recv_into(view)
            if not got:
                raise Ended
            view = view[got:]
        return bytes(data)

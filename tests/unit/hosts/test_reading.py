"""What is held of a source: few blocks, and behind the next one no more bytes than it may."""

from __future__ import annotations

import socket
import threading
import time

import numpy as np
import pyarrow as pa

from biclique.hosts.frames import BlockFrame, End, FileEnd, send_frame
from biclique.hosts.parsing.rows import BadRow, ParsedBlock
from biclique.hosts.reading import BLOCKS_AHEAD, Connection


def block_frame(number: int, size: int) -> BlockFrame:
    """One row with a text of so many bytes, and a bad row of as many."""
    text = "x" * size
    bad = (BadRow(2 * number + 1, "", "bad", text.encode()),)
    return BlockFrame(0, ParsedBlock(2 * number, 2, np.array([2 * number]), (pa.array([text]),), bad, number))


def settled(connection: Connection) -> int:
    """What is held once nothing more comes."""
    before, now = -1, 0
    while before != now:
        time.sleep(0.05)
        before, now = now, connection.ahead_bytes
    return now


def received(frames: list[BlockFrame], ahead_bytes_max: int) -> tuple[list[int], list[int]]:
    """All blocks in turn: which came, and how many bytes waited behind each before it was taken."""
    here, there = socket.socketpair()
    connection = Connection(threading.Event(), ahead_bytes_max)
    connection.start(here)

    def send() -> None:
        for frame in frames:
            send_frame(there, frame)
        send_frame(there, FileEnd(0, 2 * len(frames)))
        send_frame(there, End())

    sender = threading.Thread(target=send)
    sender.start()
    came: list[int] = []
    ahead: list[int] = []
    while True:
        ahead.append(settled(connection))
        frame = connection.get()
        match frame:
            case BlockFrame():
                came.append(frame.block.resume)
            case End():
                break
            case None:
                ahead.pop()
    sender.join()
    there.close()
    return came, ahead[: len(frames)]


def test_a_frame_counts_its_texts_and_its_bad_rows() -> None:
    assert 20_000 <= block_frame(0, 10_000).nbytes < 21_000


def test_small_blocks_are_bounded_by_their_number() -> None:
    frames = [block_frame(number, 1000) for number in range(8)]
    came, ahead = received(frames, 1 << 20)
    assert came == list(range(8))
    # the next one is not counted, and one has been received that waits to get in
    assert max(ahead) == BLOCKS_AHEAD * frames[0].nbytes


def test_large_blocks_are_bounded_by_their_bytes() -> None:
    frames = [block_frame(number, 100_000) for number in range(6)]
    size = frames[0].nbytes
    for most, blocks in ((0, 1), (size, 2), (2 * size + 1, 3)):
        came, ahead = received(frames, most)
        assert came == list(range(6))
        assert max(ahead) == blocks * size
        assert ahead[-1] == 0


def test_a_closed_connection_waits_for_nobody() -> None:
    here, there = socket.socketpair()
    connection = Connection(threading.Event(), 0)
    connection.start(here)
    for number in range(3):
        send_frame(there, block_frame(number, 1000))
    settled(connection)
    connection.close()
    failing = threading.Thread(target=connection.fail, args=("lost",))
    failing.start()
    failing.join(timeout=5)
    assert not failing.is_alive()
    there.close()

"""The loop's descriptors: streams, datagrams, sockets, readers and writers, subprocesses, signals, on both classes."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication

from tests.helpers.qt_loop import both_loops, on_both_loops, run_qt, until
from workbench.event_loop import PortableLoop

unix_only = pytest.mark.skipif(os.name == "nt", reason="not on Windows")


@asynccontextmanager
async def echo_server() -> AsyncIterator[int]:
    """Serve on the port it yields; leave when every connection has been closed."""
    connections = [0]

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[0] += 1
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()
        connections[0] -= 1

    server = await asyncio.start_server(echo, "127.0.0.1", 0, backlog=300)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    await until(lambda: not connections[0])


@on_both_loops
async def test_twenty_streams_of_a_megabyte_both_ways() -> None:
    async def client() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        payload = os.urandom(1_000_000)
        writer.write(payload)
        got = await reader.readexactly(len(payload))
        writer.close()
        await writer.wait_closed()
        return got == payload

    async with echo_server() as port:
        assert all(await asyncio.gather(*(client() for _ in range(20))))
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)


@on_both_loops
async def test_150_connections() -> None:
    async with echo_server() as port:
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(150)]
        for number, (_, writer) in enumerate(connections):
            writer.write(f"{number}\n".encode())
        lines = await asyncio.gather(*(reader.readline() for reader, _ in connections))
        assert [int(line) for line in lines] == list(range(150))
        for _, writer in connections:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in connections))


@on_both_loops
async def test_datagrams() -> None:
    loop = asyncio.get_running_loop()
    got: asyncio.Future[bytes] = loop.create_future()

    class Receiver(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            got.set_result(data)

    receiving, _ = await loop.create_datagram_endpoint(Receiver, local_addr=("127.0.0.1", 0))
    address = receiving.get_extra_info("sockname")
    sending, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=address)
    sending.sendto(b"hello")
    assert await got == b"hello"
    receiving.close()
    sending.close()


@on_both_loops
async def test_sock_functions_and_a_cancelled_one() -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as listener, socket.socket() as client:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        client.setblocking(False)
        accept = asyncio.create_task(loop.sock_accept(listener))
        await loop.sock_connect(client, listener.getsockname())
        server, _ = await accept
        with server:
            big = os.urandom(3_000_000)
            send = asyncio.create_task(loop.sock_sendall(client, big))
            got = bytearray()
            while len(got) < len(big):
                got += await loop.sock_recv(server, 65_536)
            await send
            assert got == big
            buffer = bytearray(4)
            await loop.sock_sendall(server, b"ping")
            assert await loop.sock_recv_into(client, buffer) == 4
            assert buffer == b"ping"
            waiting = asyncio.create_task(loop.sock_recv(server, 10))
            await asyncio.sleep(0.001)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await loop.sock_sendall(client, b"after")
            assert await loop.sock_recv(server, 10) == b"after"


@unix_only
@on_both_loops
async def test_readers_and_writers_on_one_descriptor_replaced_and_removed() -> None:
    loop, got = asyncio.get_running_loop(), list[tuple[str, bytes]]()
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        writable = asyncio.Event()
        loop.add_writer(near, writable.set)
        await writable.wait()
        assert loop.remove_writer(near)
        assert not loop.remove_writer(near)
        loop.add_reader(far, lambda: got.append(("first", far.recv(10))))
        loop.add_reader(far, lambda: got.append(("second", far.recv(10))))
        near.send(b"x")
        await until(lambda: got)
        written = asyncio.Event()

        def write() -> None:
            written.set()
            loop.remove_writer(far)

        loop.add_writer(far, write)
        near.send(b"y")
        await until(lambda: len(got) == 2 and written.is_set())
        assert got == [("second", b"x"), ("second", b"y")]
        assert loop.remove_reader(far)
        assert not loop.remove_reader(far)
        near.send(b"z")
        for _ in range(3):
            await asyncio.sleep(0.001)
        assert len(got) == 2
        assert far.recv(10) == b"z"


@unix_only
@on_both_loops
async def test_a_reader_is_called_once_even_if_its_batch_takes_several_turns() -> None:
    loop: Any = asyncio.get_running_loop()
    loop.budget = 0  # a turn for each handle
    near, far = socket.socketpair()
    with near, far:
        far.setblocking(False)
        got: list[bytes] = []
        loop.add_reader(far, lambda: got.append(far.recv(1)))  # BlockingIOError if called again
        for _ in range(5):
            count = len(got)
            near.send(b"x")
            for _ in range(20):
                loop.call_soon(bool)
            await until(lambda count=count: len(got) > count)
        loop.remove_reader(far)
        assert got == [b"x"] * 5


@unix_only
@on_both_loops
async def test_subprocess_output_exit_code_and_kill() -> None:
    pipe = asyncio.subprocess.PIPE
    code = "import sys; print(sys.stdin.read().upper()); sys.exit(3)"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=pipe, stdout=pipe)
    out, _ = await child.communicate(b"hello")
    assert (out.strip(), child.returncode) == (b"HELLO", 3)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(60)")
    child.kill()
    assert await child.wait() == -signal.SIGKILL


@unix_only
@both_loops
def test_signal_handlers_wake_an_idle_loop_and_leave_no_trace(
    qapp: QApplication, loop_class: type[PortableLoop]
) -> None:
    async def main() -> None:
        loop, got = asyncio.get_running_loop(), list[int]()
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            loop.add_signal_handler(number, got.append, number)
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
            count = len(got)
            loop.call_soon(os.kill, os.getpid(), number)
            await until(lambda count=count: len(got) > count)
        assert got == [signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1]
        assert loop.remove_signal_handler(signal.SIGUSR1)
        assert loop.remove_signal_handler(signal.SIGUSR2)
        assert not loop.remove_signal_handler(signal.SIGUSR2)
        assert current_wakeup_fd() == loop._csock.fileno()  # type: ignore[attr-defined]

    before = current_wakeup_fd()
    run_qt(main(), loop_class=loop_class)
    assert current_wakeup_fd() == before


@unix_only
@both_loops
def test_a_signal_handler_kept_over_two_runs_leaves_no_stale_descriptor(
    qapp: QApplication, loop_class: type[PortableLoop]
) -> None:
    before = current_wakeup_fd()
    loop = loop_class(qapp)
    loop.add_signal_handler(signal.SIGUSR1, bool)
    for _ in range(2):
        loop.run_until_complete(asyncio.sleep(0))
    loop.call_soon(loop.remove_signal_handler, signal.SIGUSR1)
    loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()
    assert current_wakeup_fd() in (before, -1)


def current_wakeup_fd() -> int:
    fd = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(fd)
    return fd

"""Lets pods of the real node reach what listens on this machine's loopback: the same ports on the bridge's address.

A program of its own: `forward.py ADDRESS PORT…`."""

import asyncio
import sys


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except ConnectionError:
        writer.close()


def _to(port: int):
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        there_writer.close()
        writer.close()

    return connected


async def _serve(address: str, ports: list[int]) -> None:
    servers = [await asyncio.start_server(_to(port), address, port) for port in ports]
    print("forwarding", address, ports, flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], [int(each) for each in sys.argv[2:]]))

"""A body that was sent compressed, decompressed to be read. Pure."""

import io
import zlib

from memory_core.errors import MessageError

_WINDOW = 23
"""Bits of the largest window of zstd that may be sent over HTTP (RFC 9659), which bounds the memory it takes."""


def decompressed(body: bytes, codings: str, most: int) -> bytes:
    """The bytes of a body, as far as they came whole. `codings`: its `Content-Encoding`.

    Raises:
        MessageError: it is more than `most`, or compressed in a way that is not read here.
    """
    for coding in reversed([each.strip().lower() for each in codings.split(",")]):
        if coding in ("gzip", "x-gzip", "deflate"):
            body = _inflated(body, most, 47)  # either header
        elif coding == "zstd":
            body = _unpacked(body, most)
        elif coding not in ("", "identity"):
            raise MessageError(f'it is compressed as "{coding[:20]}": gzip, deflate and zstd are read')
        if len(body) > most:
            raise MessageError(f"it is more than {most:,} bytes when it is decompressed")
    return body


def _inflated(body: bytes, most: int, header: int) -> bytes:
    made = b""
    while body and len(made) <= most:  # gzip may hold several streams one after the other
        stream = zlib.decompressobj(header)
        try:
            made += stream.decompress(body, most + 1 - len(made))
        except zlib.error:
            # Some send deflate without its header.
            return made or (_inflated(body, most, -15) if header > 0 else b"")
        body = stream.unused_data
    return made


def _unpacked(body: bytes, most: int) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise MessageError('it is compressed as "zstd", which is read with the package zstandard') from None
    pieces: list[bytes] = []
    size = 0
    unpacker = zstandard.ZstdDecompressor(max_window_size=2**_WINDOW)
    try:
        with unpacker.stream_reader(io.BytesIO(body), read_across_frames=True) as stream:
            while size <= most and (piece := stream.read(min(65536, most + 1 - size))):
                pieces.append(piece)
                size += len(piece)
    except zstandard.ZstdError:
        pass  # what came before is read
    return b"".join(pieces)

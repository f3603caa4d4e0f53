"""Decompress request and response bodies. Pure."""

import io
import zlib
from contextlib import suppress

from memory_core.errors import MessageError

_WINDOW = 23
"""Maximum zstd window size over HTTP as a power of two (RFC 9659); bounds memory use."""


def decompressed(body: bytes, codings: str, most: int) -> bytes:
    """Decompress a body as far as it is intact. `codings`: its `Content-Encoding`; `most`: maximum bytes.

    Raises:
        MessageError: The result exceeds `most`, or a coding is unsupported.
    """
    # Codings are listed in the order in which they were applied.
    for coding in reversed([name.strip().lower() for name in codings.split(",")]):
        if coding in ("gzip", "x-gzip", "deflate"):
            body = _inflated(body, most, 47)  # 47: gzip or zlib header
        elif coding == "zstd":
            body = _unpacked(body, most)
        elif coding not in ("", "identity"):
            raise MessageError(f'it is compressed as "{coding[:20]}": gzip, deflate and zstd are read')
        # The decompressors stop one byte above the limit, so that a body of exactly `most` bytes still passes.
        if len(body) > most:
            raise MessageError(f"it is more than {most:,} bytes when it is decompressed")
    return body


def _inflated(body: bytes, most: int, header: int) -> bytes:
    made, stream = bytearray(), zlib.decompressobj(header)
    for piece in (body[at : at + 4096] for at in range(0, len(body), 4096)):  # in pieces: each stream copies its rest
        while piece and len(made) <= most:
            stream = zlib.decompressobj(header) if stream.eof else stream  # gzip may hold several streams
            try:
                made += stream.decompress(piece, most + 1 - len(made))
            except zlib.error:
                # Some servers send deflate without its zlib header.
                return bytes(made) or (_inflated(body, most, -15) if header > 0 else b"")
            piece = stream.unused_data
    return bytes(made)


def _unpacked(body: bytes, most: int) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise MessageError('it is compressed as "zstd", which is read with the package zstandard') from None
    made, unpacker = bytearray(), zstandard.ZstdDecompressor(max_window_size=2**_WINDOW)
    with suppress(zstandard.ZstdError), unpacker.stream_reader(io.BytesIO(body), read_across_frames=True) as stream:
        while len(made) <= most and (piece := stream.read(min(65536, most + 1 - len(made)))):
            made += piece  # keep the output before an error
    return bytes(made)

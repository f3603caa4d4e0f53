"""LlamaIndex's names of our parts, and functions that return a `FilePart`: `AudioBlock(audio=data, format="wav")`."""

import base64

from memory_core.errors import MessageError
from memory_core.formats.llamaindex_message import file_part
from memory_core.messages import FilePart, ImagePart, TextPart, ThinkingPart, ToolCallPart

# The same values by LlamaIndex's names, so that code written for it only changes its imports.
TextBlock = TextPart
ImageBlock = ImagePart
ThinkingBlock = ThinkingPart
ToolCallBlock = ToolCallPart


def AudioBlock(audio: bytes | None = None, *, url: str | None = None, format: str | None = None) -> FilePart:
    """Return a sound file, given by its bytes or its URL.

    Raises:
        MessageError: both are given, or neither, or the file is empty.
    """
    return _file("audio", audio, url, {"format": format})


def VideoBlock(video: bytes | None = None, *, url: str | None = None, video_mimetype: str | None = None) -> FilePart:
    """Return a video file, with the rules of `AudioBlock`."""
    return _file("video", video, url, {"video_mimetype": video_mimetype})


def DocumentBlock(
    data: bytes | None = None,
    *,
    url: str | None = None,
    title: str | None = None,
    document_mimetype: str | None = None,
) -> FilePart:
    """Return a document, with the rules of `AudioBlock`."""
    return _file("document", data, url, {"document_mimetype": document_mimetype, "title": title}, field="data")


def _file(kind: str, data: bytes | None, url: str | None, kinds: dict[str, str | None], field: str = "") -> FilePart:
    if (data is None) == (url is None):
        raise MessageError(f"give the {kind} as bytes or by its url")
    held = None if data is None else base64.b64encode(data).decode()
    part = file_part({field or kind: held, "url": url, **kinds}, kind)
    if not isinstance(part, FilePart):
        raise MessageError(f"the {kind} is empty")
    return part

"""Git packs that are small and unpack to much: what is too large is left out, and the rest is read."""

import hashlib
import io
import struct
import zipfile
import zlib

import pytest
from dulwich.objects import Blob, Commit, Tree
from dulwich.repo import Repo
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_inspector.files import git_history
from memory_inspector.files.files import read_file
from memory_inspector.files.git_history import MAX_OBJECT_BYTES, pack_sizes

LARGE = MAX_OBJECT_BYTES + 1


def varint(size):
    out = bytearray()
    while True:
        out.append(size & 127 | (128 if size > 127 else 0))
        size >>= 7
        if not size:
            return bytes(out)


def header(kind, size):
    first, rest = kind << 4 | size & 15, size >> 4
    return bytes([first | (128 if rest else 0)]) + (varint(rest) if rest else b"")


def packed(kind, data, size=None):
    return header(kind, len(data) if size is None else size) + zlib.compress(data, 9)


def copies(base, number):
    """A delta whose result is its base, so many times."""
    size = struct.pack("<I", len(base))[:3]
    delta = varint(len(base)) + varint(len(base) * number) + (b"\xf0" + size) * number
    return delta


class Pack:
    """A pack written by hand, with its index."""

    def __init__(self):
        self.data, self.places = b"", {}

    def add(self, id, body):
        self.places[id] = (12 + len(self.data), zlib.crc32(body))
        self.data += body

    def object(self, made):
        kind = {b"commit": 1, b"tree": 2, b"blob": 3}[made.type_name]
        self.add(made.id, packed(kind, made.as_raw_string()))
        return made.id

    def files(self):
        pack = b"PACK" + struct.pack(">II", 2, len(self.places)) + self.data
        pack += hashlib.sha1(pack).digest()
        ids = sorted(bytes.fromhex(id.decode()) for id in self.places)
        fan = b"".join(struct.pack(">I", sum(id[0] <= n for id in ids)) for n in range(256))
        rows = [self.places[id.hex().encode()] for id in ids]
        index = b"\xfftOc" + struct.pack(">I", 2) + fan + b"".join(ids)
        index += b"".join(struct.pack(">I", crc) for _, crc in rows) + b"".join(struct.pack(">I", at) for at, _ in rows)
        index += pack[-20:]
        return pack, index + hashlib.sha1(index).digest()


def history_with(pack, *blobs):
    """Commits that put these blobs into `note.md`, one after another; the newest commit's id."""
    parent = None
    for number, blob in enumerate(blobs):
        tree = Tree()
        tree.add(b"note.md", 0o100644, blob)
        commit = Commit()
        commit.tree, commit.parents = pack.object(tree), [parent] if parent else []
        commit.author = commit.committer = b"A <a@b>"
        commit.author_time = commit.commit_time = number
        commit.author_timezone = commit.commit_timezone = 0
        commit.message = b"m"
        parent = pack.object(commit)
    return parent


def zipped(pack, head):
    out = io.BytesIO()
    (data, index), name = pack.files(), hashlib.sha1(b"".join(sorted(pack.places))).hexdigest()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("n/note.md", "# Now\n")
        archive.writestr("n/.git/HEAD", "ref: refs/heads/main\n")
        archive.writestr("n/.git/refs/heads/main", head.decode() + "\n")
        archive.writestr(f"n/.git/objects/pack/pack-{name}.pack", data)
        archive.writestr(f"n/.git/objects/pack/pack-{name}.idx", index)
    return out.getvalue()


def large_blob(pack):
    data = bytes(LARGE)
    id = hashlib.sha1(b"blob %d\0" % LARGE + data).hexdigest().encode()
    pack.add(id, packed(3, data))
    return id


def large_delta(pack, *, by_name):
    base = Blob.from_string(bytes(1 << 20))
    id = pack.object(base)
    back = 12 + len(pack.data) - pack.places[id][0]
    delta, number = copies(base.data, 17), 17
    if by_name:
        body = header(7, len(delta)) + bytes.fromhex(id.decode()) + zlib.compress(delta)
    else:
        far, rest = [back & 127], back >> 7
        while rest:
            rest -= 1
            far.insert(0, rest & 127 | 128)
            rest >>= 7
        body = header(6, len(delta)) + bytes(far) + zlib.compress(delta)
    result = hashlib.sha1(b"blob %d\0" % (number << 20) + bytes(number << 20)).hexdigest().encode()
    pack.add(result, body)
    return result


@pytest.mark.parametrize(
    "large",
    [large_blob, lambda pack: large_delta(pack, by_name=True), lambda pack: large_delta(pack, by_name=False)],
    ids=["blob", "delta on a name", "delta on an offset"],
)
def test_a_version_too_large_to_be_read_is_left_out_and_the_others_are_read(large):
    pack = Pack()
    small = [pack.object(Blob.from_string(text)) for text in (b"# First\n", b"# Now\n")]
    head = history_with(pack, small[0], large(pack), small[1])
    found = read_file("n.zip", zipped(pack, head)).conversation()
    assert [each if isinstance(each, str) else each.text for each in found.notes] == [
        "1 version is too large to be read"
    ]
    (block,) = found.blocks
    assert [version.text for version in block.versions] == ["# First\n", "# Now\n"]


def read(texts):
    """Texts of the versions that are read of a history with these, and the notes."""
    pack = Pack()
    head = history_with(pack, *(pack.object(Blob.from_string(text)) for text in texts))
    found = read_file("n.zip", zipped(pack, head)).conversation()
    notes = [each if isinstance(each, str) else each.text for each in found.notes]
    return [version.text for block in found.blocks for version in block.versions], notes


def test_of_versions_that_are_more_than_are_kept_the_newest_are_read(monkeypatch):
    monkeypatch.setattr(git_history, "MAX_KEPT_BYTES", 16)
    versions, notes = read([b"# First\n", b"# Later\n", b"# Now\n"])
    assert versions == ["# Later\n", "# Now\n"]
    assert len(notes) == 1


@pytest.mark.parametrize(("limit", "most"), [("MAX_COMMITS", 2), ("MAX_UNPACKED_BYTES", 450)])
def test_of_more_commits_than_are_read_the_newest_are_read(monkeypatch, limit, most):
    monkeypatch.setattr(git_history, limit, most)
    versions, notes = read([b"# First\n", b"# Later\n", b"# Now\n"])
    assert versions == ["# Later\n", "# Now\n"]
    assert notes == ["the newest 2 commits are read"]


def test_commits_and_folders_take_no_room_of_the_versions(monkeypatch):
    monkeypatch.setattr(git_history, "MAX_KEPT_BYTES", 100)
    texts = [*(f"# {number}\n" for number in range(20)), "# Now\n"]
    versions, notes = read([text.encode() for text in texts])
    assert versions == texts
    assert notes == []


@settings(max_examples=20, deadline=None)
@given(texts=st.lists(st.binary(max_size=2_000), min_size=1, max_size=6, unique=True))
def test_no_object_is_larger_than_its_size_says(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("repository")
    repository = Repo.init(folder)
    ids = [Blob.from_string(b"the same beginning " * 40 + text) for text in texts]
    for blob in ids:
        repository.object_store.add_object(blob)
    repository.object_store.pack_loose_objects()
    with pack_sizes(folder / ".git" / "objects") as sizes:
        assert all(sizes.largest(blob.id) >= blob.raw_length() for blob in ids)
        assert sizes.largest(b"0" * 40) == 0
    repository.close()

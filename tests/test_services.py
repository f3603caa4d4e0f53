"""What one process shares, and how it lets go of it."""

from engine_fakes import HashEmbedder, NoteExtractor, blocks, note, open_memory
from filelock import FileLock, Timeout

from memory_core import Services
from memory_core.vectors.chroma_client import LOCK_NAME


def test_services_with_another_extractor_share_the_index_and_the_embedder(tmp_path):
    services = Services(index=tmp_path / "vectors", embedder=HashEmbedder(), extractor=NoteExtractor())
    other = services.with_extractor(NoteExtractor()).with_extractor(NoteExtractor())
    assert other.index is services.index
    assert other.embedder is services.embedder
    assert other.extractor is not services.extractor
    services.close()


def test_a_copy_closes_nothing_that_the_original_goes_on_with(tmp_path):
    folder = tmp_path / "vectors"
    services = Services(index=folder, embedder=HashEmbedder(), extractor=NoteExtractor())
    memory = open_memory(memory_blocks=blocks(), services=services)
    for number in range(12):
        memory.put(note(number))
    memory.get("What was note 3?")
    services.with_extractor(NoteExtractor()).close()
    assert not free(folder)
    services.close()
    assert free(folder)


def test_closing_lets_the_vector_folder_go_and_it_opens_again_when_it_is_needed(tmp_path):
    folder = tmp_path / "vectors"
    services = Services(index=folder, embedder=HashEmbedder(), extractor=NoteExtractor())
    memory = open_memory(memory_blocks=blocks(), services=services)
    for number in range(12):
        memory.put(note(number))
    before = memory.get("What was note 3?")
    assert not free(folder)
    services.close()
    assert free(folder)
    assert memory.get("What was note 3?") == before
    assert not free(folder)
    services.index.check()
    services.close()
    services.close()
    assert free(folder)


def test_services_that_opened_nothing_close_quietly(tmp_path):
    Services(index=tmp_path / "vectors").close()
    assert not (tmp_path / "vectors").exists()


def free(folder):
    try:
        with FileLock(folder / LOCK_NAME, timeout=0):
            return True
    except Timeout:
        return False

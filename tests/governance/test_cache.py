from falaj.governance.cache import Bounded, Current


def test_the_oldest_entry_goes_when_the_memory_is_full() -> None:
    memory: Bounded[int, str] = Bounded(2)
    for key in range(3):
        memory.put(key, str(key))
    assert [memory.get(key) for key in range(3)] == [None, "1", "2"]


def test_a_newer_generation_forgets_the_older_ones() -> None:
    memory: Current[tuple[int, str], str] = Current(100)
    for generation in range(1, 50):
        memory.put((generation, "a"), "x")
        memory.put((generation, "b"), "y")
    assert len(memory) == 2
    assert memory.get((49, "a")) == "x"


def test_a_late_answer_of_an_older_generation_takes_nothing_away() -> None:
    memory: Current[tuple[int, str], str] = Current(100)
    memory.put((2, "a"), "new")
    memory.put((1, "a"), "old")
    assert memory.get((2, "a")) == "new"

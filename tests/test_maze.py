"""The maze generator: the words it draws from, and that its layouts are labmaze's in every character."""

import hashlib
import random

import numpy as np
import pytest

from memory_maze import TASKS, make_task
from memory_maze.maze import LayoutGenerator, Settings
from memory_maze.maze.grid import make_grid
from memory_maze.maze.shorten import fill_dead_ends, find_bends, pull_bends
from memory_maze.maze.words import Words
from memory_maze.sampler import make_generator, settings_of

pytestmark = pytest.mark.pythons

# SHA-256 of the first thousand layouts of seed 1: both layers, every row with its newline.
DIGESTS = {
    7: "35d0abd868ad18d18a21fcb64058190766244535ac280fa89daf8ecfd43bc557",
    9: "8223aeebb780096467e90bce57ac8fa8e3ee51725f3cfd356b1b8034b7320a06",
    11: "9fe17987568ea281d97278edef8d85ef63fae34b0bdeb46ada21b9261f785762",
    13: "918b8337c804c9f1c58e04bda4d06d574580ac34615ee18064f73da93b44a147",
    15: "307dbf62b50df7ce289ce36aabe14641e6e5c5eb465a7a518c5c64e38b349752",
    21: "e4bac56d4f0da8ba01c4423919167993a8856f0616903d7655d9c0572598022b",
    31: "81246a0f8266af56d0a086663ead90d66f71bd92f20ade8449d38806e6c3b1c9",
}


@pytest.mark.parametrize(
    ("seed", "first"),
    [
        (5489, [14514284786278117030, 4620546740167642908, 13109570281517897720]),
        (1, [2469588189546311528, 2516265689700432462, 8323445853463659930]),
        (0, [2947667278772165694]),
        (-1, [478026398904862820]),
        (np.int64(-1), [478026398904862820]),
    ],
)
def test_words_are_those_of_the_mersenne_twister(seed, first):
    words = Words(seed)
    assert [words.word() for _ in first] == first


def test_the_ten_thousandth_word_is_that_of_the_cpp_standard():
    read, skipped = Words(5489), Words(5489)
    assert [read.word() for _ in range(10_000)][-1] == 9981545732273789042
    skipped.skip(9_999)
    assert skipped.word() == 9981545732273789042


def test_skipping_passes_exactly_so_many_words():
    for before in (0, 1, 310, 311, 312, 500):
        for count in (0, 1, 10, 310, 311, 312, 622, 4000):
            read, skipped = Words(3), Words(3)
            for _ in range(before):
                read.word(), skipped.word()
            for _ in range(count):
                read.word()
            skipped.skip(count)
            assert [read.word() for _ in range(5)] == [skipped.word() for _ in range(5)], (before, count)


def test_draws():
    words = Words(1)
    assert [words.below(10) for _ in range(12)] == [1, 1, 4, 0, 3, 9, 4, 0, 5, 6, 0, 5]
    one, other = Words(1), Words(1)
    one.below(1)
    other.pick(4, 4)
    other.pick(4, 3)
    assert one.word() == 2516265689700432462, "below takes a word also where there is no choice"
    assert other.word() == 2469588189546311528, "pick takes none then"
    assert Words(1).real() == 2469588189546311528 / 2**64


@pytest.mark.parametrize(
    "shuffled",
    [
        [],
        [0],
        [1, 0],
        [2, 0, 1],
        [2, 3, 1, 0],
        [3, 0, 4, 2, 1],
        [7, 8, 5, 2, 6, 4, 1, 3, 0],
        [6, 9, 4, 8, 1, 3, 2, 5, 0, 7],
    ],
    ids=len,
)
def test_shuffles(shuffled):
    items = sorted(shuffled)
    Words(1).shuffle(items)
    assert items == shuffled


ENTITIES_AND_VARIATIONS = """
*****************    .................
*******     *  G*    .......III...BBB.
*******PG * *   *    .......III...BBB.
***       *   P *    ...CCC.III...BBB.
***  G* * * *** *    ...CCC...........
*   P * *   *** *    ...CCC...GGG.....
* ***** *GP *** *    .........GGG.....
*             * *    .........GGG.....
* *** ******* * *    .................
* G *G        * *    .HHH.FFF.........
*   *   * ***** *    .HHH.FFF.........
*  P   P*       *    .HHH.FFF.........
* * * * * ***** *    .................
*    P          *    ...EEE.DDD.AAA...
***   *P  * G ***    ...EEE.DDD.AAA...
***  G*G  *  P***    ...EEE.DDD.AAA...
*****************    .................
"""


def test_a_layout_in_full():
    """With a bend of one cell that is left, as the one before was no longer."""
    rows = ENTITIES_AND_VARIATIONS.strip().splitlines()
    generator = LayoutGenerator(settings_of(TASKS["15x15"]), 2147483647)
    layout = [generator.draw() for _ in range(3)][-1]
    assert list(layout.entities()) == [row[:17] for row in rows]
    assert list(layout.variations()) == [row[-17:] for row in rows]
    assert layout.walls() == tuple(row.replace("P", " ").replace("G", " ") for row in layout.entities())
    assert {layout.entities()[row][column] for row, column in layout.places(layout.objects)} == {"G"}
    assert layout.objects.bit_count() == layout.spawns.bit_count() == 9


@pytest.mark.parametrize(("size", "digest"), DIGESTS.items(), ids=str)
def test_layouts_on_every_python_and_system(size, digest):
    task = TASKS.get(f"{size}x{size}") or make_task(size, 3)
    generator = LayoutGenerator(settings_of(task), 1)
    found = hashlib.sha256()
    for _ in range(1000):
        layout = generator.draw()
        for row in (*layout.entities(), *layout.variations()):
            found.update(row.encode() + b"\n")
    assert found.hexdigest() == digest


def test_the_published_constructor_draws_a_maze_that_is_never_played():
    generator = LayoutGenerator(settings_of(TASKS["9x9"]), 5)
    generator.draw()
    assert make_generator(TASKS["9x9"], 5).draw().entities() == generator.draw().entities()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"height": 10, "width": 11}, "must be odd"),
        ({"height": 11, "width": 1}, "must be odd, at least 3"),
        ({"height": 7, "width": 11, "room_max_size": 6}, "room_max_size <= 5"),
        ({"height": 11, "width": 11, "room_min_size": 5}, "room_min_size <= room_max_size"),
        ({"height": 11, "width": 11, "room_min_size": 0}, "1 <= room_min_size"),
        ({"height": 11, "width": 11, "max_variations": 0}, "max_variations must be from 1"),
    ],
)
def test_settings_that_give_no_maze_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Settings(**settings)


def read(text, turns=0):
    """The grid and the set of floor cells of a drawing, after so many quarter turns."""
    rows = [row.strip() for row in text.strip().splitlines()]
    for _ in range(turns):
        rows = list(zip(*rows[::-1], strict=True))
    grid = make_grid(len(rows), len(rows[0]))
    cells = (r * grid.stride + c for r, row in enumerate(rows) for c, char in enumerate(row) if char != "#")
    return grid, sum(1 << cell for cell in cells)


def test_dead_ends_are_filled_up_to_the_next_fork():
    grid, floor = read("""
        #########
        #o#ooooo#
        #o#o###o#
        #ooo###o#
        ###o###o#
        #ooooooo#
        #########
    """)
    _, filled = read("""
        #########
        ###ooooo#
        ###o###o#
        ###o###o#
        ###o###o#
        ###ooooo#
        #########
    """)
    assert fill_dead_ends(grid, floor, 0) == filled


@pytest.mark.parametrize("turns", range(4))
def test_bends_are_pulled_straight_on_all_sides(turns):
    """As far as they go: this one by two rows."""
    bent = """
        #########
        ##ooooo##
        ##o###o##
        #oo###oo#
        #########
        #########
        #########
        #########
        #########
    """
    straight = """
        #########
        #########
        #########
        #ooooooo#
        #########
        #########
        #########
        #########
        #########
    """
    grid, floor = read(bent, turns)
    assert [cells.bit_count() for cells in find_bends(grid, floor, 0)[3].values()] == [1]
    assert pull_bends(grid, floor, 0) == read(straight, turns)[1]


def assert_same(settings, seed, count=1):
    labmaze = pytest.importorskip("labmaze", reason="labmaze has wheels up to Python 3.12")
    peer, ours = labmaze.RandomMaze(random_seed=seed, **vars(settings)), LayoutGenerator(settings, seed)
    for number in range(count):
        if number:
            peer.regenerate()
        layout = ours.draw()
        for rows, layer in (
            (layout.entities(), peer.entity_layer),
            (layout.variations(), peer.variations_layer),
        ):
            assert list(rows) == ["".join(row) for row in layer], (settings, seed, number)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_two_thousand_seeds_are_labmazes(task):
    for seed in range(2000):
        assert_same(settings_of(task), seed * 1_073_741 % 2**31)


@pytest.mark.parametrize(
    "task",
    [*TASKS.values(), *(make_task(size, 1) for size in (7, 17, 21, 25, 31))],
    ids=lambda task: task.name,
)
def test_consecutive_layouts_are_labmazes(task):
    assert_same(settings_of(task), seed=2024, count=500 if task.size <= 15 else 50)


def draw_settings(rng):
    height, width = (rng.choice(range(7, 34, 2)) for _ in range(2))
    inside = min(height, width) - 2
    room_min_size = rng.randint(1, min(inside, 9))
    return Settings(
        height=height,
        width=rng.choice([height, width]),
        max_rooms=rng.choice([0, 1, 2, 4, 6, 9, 30]),
        room_min_size=room_min_size,
        room_max_size=rng.randint(room_min_size, min(inside, 12)),
        retry_count=rng.choice([0, 1, 10, 100, 1000]),
        extra_connection_probability=rng.choice([0, 0, 0.05, 0.3, 1]),
        max_variations=rng.randint(1, 26),
        simplify=rng.random() < 0.8,
        spawns_per_room=rng.choice([-1, 0, 1, 1, 2, 5]),
        objects_per_room=rng.choice([-1, 0, 1, 1, 3]),
    )


def test_random_settings_are_labmazes():
    rng = random.Random(0)
    for _ in range(500):
        assert_same(draw_settings(rng), rng.randrange(-(2**31), 2**31), count=2)


@pytest.mark.slow
def test_many_random_settings_and_seeds_are_labmazes():
    rng = random.Random(1)
    for _ in range(10_000):
        assert_same(draw_settings(rng), rng.randrange(-(2**31), 2**31), count=2)
    for task in TASKS.values():
        for _ in range(10_000):
            assert_same(settings_of(task), rng.randrange(2**31))
        assert_same(settings_of(task), seed=7, count=10_000)

"""The flat map of vectors: distances it must keep, axes it must choose, and how a crowd is thinned."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from memory_core.retrieval.pca import fit, thin


def clouds(seed=0, n=60, dim=20):
    """Points that differ most along two known directions."""
    random = np.random.default_rng(seed)
    rows = random.normal(scale=0.1, size=(n, dim))
    rows[:, 3] += random.normal(scale=5, size=n)
    rows[:, 7] += random.normal(scale=2, size=n)
    return rows.astype(np.float32)


def test_the_axes_are_the_directions_in_which_the_vectors_differ_most():
    axes = fit(clouds()).axes
    assert [int(np.argmax(np.abs(axis))) for axis in axes] == [3, 7]
    assert np.allclose(axes @ axes.T, np.eye(2), atol=1e-9)


def test_points_are_those_of_a_full_singular_value_decomposition():
    rows = clouds()
    centred = rows.astype(np.float64) - rows.astype(np.float64).mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    expected = left[:, :2] * sizes[:2]
    assert np.allclose(np.abs(fit(rows).points(rows)), np.abs(expected), atol=1e-6)


@pytest.mark.parametrize("shape", [(60, 20), (12, 40)], ids=["more vectors than dimensions", "fewer"])
def test_the_same_vectors_in_another_order_give_the_same_map(shape):
    rows = clouds(n=shape[0], dim=shape[1])
    order = np.random.default_rng(1).permutation(len(rows))
    assert np.allclose(fit(rows).points(rows), fit(rows[order]).points(rows), atol=1e-9)


def test_the_component_that_weighs_most_in_an_axis_is_positive():
    for axis in fit(-clouds()).axes:
        assert axis[np.argmax(np.abs(axis))] > 0


def test_what_does_not_differ_lies_on_one_spot():
    rows = np.ones((5, 8), dtype=np.float32)
    found = fit(rows)
    assert found.points(rows).tolist() == [[0.0, 0.0]] * 5
    assert found.share == 1.0


def test_one_vector_and_two_have_a_map():
    assert fit(np.array([[1, 0]], dtype=np.float32)).points(np.array([[1, 0]], dtype=np.float32)).tolist() == [[0, 0]]
    pair = np.array([[0, 0, 0], [0, 4, 0]], dtype=np.float32)
    assert np.allclose(fit(pair).points(pair), [[-2, 0], [2, 0]])


def test_the_share_says_how_much_of_the_differences_is_kept():
    cross = np.array([[2, 0, 0], [-2, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 2], [0, 0, -2]], dtype=np.float32)
    assert fit(cross).share == pytest.approx(2 / 3)


def test_a_map_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="at least one vector"):
        fit(np.empty((0, 3), dtype=np.float32))


@given(arrays(np.float32, (7, 5), elements=st.floats(-100, 100, width=32)))
def test_the_map_never_draws_two_vectors_further_apart_than_they_are(rows):
    points = fit(rows).points(rows)
    for a in range(len(rows)):
        true = np.linalg.norm(rows.astype(np.float64) - rows[a].astype(np.float64), axis=1)
        drawn = np.linalg.norm(points - points[a], axis=1)
        assert (drawn <= true + 1e-4).all()


@given(st.integers(0, 300), st.integers(1, 60), st.sets(st.integers(0, 299)))
def test_thinning_keeps_order_and_what_it_must_and_no_more_than_it_may(count, most, keep):
    chosen = thin(range(count), most, keep=keep)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(count, most)
    wanted = [number for number in range(count) if number in keep]
    assert set(chosen) >= set(wanted[:most])


def test_thinning_is_even_along_the_order():
    assert thin(range(1000), 5) == [0, 200, 400, 600, 800]


def test_a_map_of_no_points_cannot_be_asked_for():
    with pytest.raises(ValueError, match="most=0"):
        thin([1, 2], 0)
